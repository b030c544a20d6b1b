#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/needles.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

v1::UniformPrompts UniformOf(const v1::UniformTokens& uniform, uint64_t seed, const ModelFacts& model) {
  v1::UniformPrompts prompts;
  prompts.set_seed(seed);
  prompts.set_tokens(uniform.tokens());
  prompts.set_vocabulary(model.config.vocabulary());
  if (!uniform.special_tokens()) {
    auto* excluded = prompts.mutable_excluded_ids();
    *excluded = model.config.special_token_ids();
    std::sort(excluded->begin(), excluded->end());
    excluded->Truncate(static_cast<int>(std::unique(excluded->begin(), excluded->end()) - excluded->begin()));
  }
  if (StartsWithBos(uniform.bos(), model) && model.config.has_bos_token_id()) {
    prompts.set_bos_token_id(model.config.bos_token_id());
  }
  return prompts;
}

// A block under construction: the samples that a task drew, by number.
using DrawnSamples = std::map<int64_t, v1::TokenIds>;

absl::StatusOr<v1::PromptBlock> BlockFrom(int64_t task_index, const v1::Sampling& sampling,
                                          DrawnSamples drawn) {
  v1::PromptBlock block;
  *block.mutable_samples() = sampling.samples();
  for (int64_t i = 0; i < sampling.samples().count(); ++i) {
    const int64_t sample = sampling.samples().first_sample() + i;
    const auto found = drawn.find(sample);
    if (found == drawn.end() || found->second.ids_size() != sampling.tokens()) {
      return absl::InternalError(absl::StrCat("sampling task ", task_index, " gave ",
                                              found == drawn.end() ? 0 : found->second.ids_size(),
                                              " tokens for sample ", sample, ", not ", sampling.tokens()));
    }
    *block.mutable_given()->add_prompts() = std::move(found->second);
    drawn.erase(found);
  }
  if (!drawn.empty()) {
    return absl::InternalError(absl::StrCat("sampling task ", task_index, " gave sample ",
                                            drawn.begin()->first, ", which is not of its block"));
  }
  return block;
}

v1::GeneratedText GeneratedOf(const v1::GeneratedPrompts& generated, uint64_t seed, const ModelFacts& model) {
  v1::GeneratedText text;
  text.set_seed(seed);
  text.set_tokens(generated.tokens());
  if (StartsWithBos(generated.bos(), model)) {
    text.set_bos_token_id(model.config.bos_token_id());
  }
  return text;
}

}  // namespace

bool StartsWithBos(v1::Bos::Value bos, const ModelFacts& model) {
  return bos == v1::Bos::ALWAYS || (bos == v1::Bos::AUTO && model.config.tokenizer_adds_bos());
}

int64_t TokensOf(const v1::PromptSource& source, int64_t sample) {
  if (source.has_token_ids()) {
    return source.token_ids().prompts(static_cast<int>(sample)).ids_size();
  }
  if (source.has_needle()) {
    return NeedleSampleOf(source.needle(), sample).context_length();
  }
  return ShapeOf(source).value_or(PromptShape()).longest;
}

bool KnowsTokens(const v1::PromptSource& source) {
  return !source.has_needle();
}

bool NeedsSampling(const v1::PromptSource& source) {
  return source.has_sampled();
}

int64_t BlockCount(int64_t samples) {
  return (samples + kBlockSamples - 1) / kBlockSamples;
}

v1::SampleBlock BlockOf(int64_t block, int64_t samples) {
  v1::SampleBlock result;
  result.set_first_sample(block * kBlockSamples);
  result.set_count(std::min(kBlockSamples, samples - block * kBlockSamples));
  return result;
}

v1::Sampling SamplingOf(const v1::PromptSource& source, uint64_t seed, const ModelFacts& model,
                        int64_t block) {
  const v1::SampledPrompts& sampled = source.sampled();
  v1::Sampling sampling;
  *sampling.mutable_samples() = BlockOf(block, sampled.count());
  sampling.set_seed(seed);
  sampling.set_tokens(sampled.tokens());
  sampling.set_temperature(sampled.temperature());
  sampling.set_bos_token_id(model.config.bos_token_id());
  sampling.set_vocabulary(model.config.vocabulary());
  return sampling;
}

v1::PromptBlock PromptBlockOf(const v1::PromptSource& source, uint64_t seed, const ModelFacts& model,
                              int64_t block) {
  v1::PromptBlock prompts;
  if (source.has_uniform_tokens()) {
    *prompts.mutable_samples() = BlockOf(block, source.uniform_tokens().count());
    *prompts.mutable_uniform() = UniformOf(source.uniform_tokens(), seed, model);
    return prompts;
  }
  if (source.has_generated()) {
    *prompts.mutable_samples() = BlockOf(block, source.generated().count());
    *prompts.mutable_generated() = GeneratedOf(source.generated(), seed, model);
    return prompts;
  }
  const v1::TokenIdPrompts& given = source.token_ids();
  *prompts.mutable_samples() = BlockOf(block, given.prompts_size());
  for (int64_t i = 0; i < prompts.samples().count(); ++i) {
    *prompts.mutable_given()->add_prompts() =
        given.prompts(static_cast<int>(prompts.samples().first_sample() + i));
  }
  return prompts;
}

absl::StatusOr<std::vector<v1::PromptBlock>> SampledBlocks(StageReadings& readings, int64_t stage) {
  std::map<int64_t, std::pair<v1::Sampling, DrawnSamples>> tasks;
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(stage, [&](int64_t task_index, const v1::Measurement& measurement,
                                                      const v1::Reading& reading) {
    if (!measurement.has_sampling() || !reading.has_sampled_tokens()) {
      return absl::InternalError(absl::StrCat("task ", task_index, " of stage ", stage, " is no sampling"));
    }
    auto& [sampling, drawn] = tasks[task_index];
    sampling = measurement.sampling();
    drawn[reading.sampled_tokens().sample()] = reading.sampled_tokens().ids();
    return absl::OkStatus();
  }));
  std::vector<v1::PromptBlock> blocks;
  for (auto& [task_index, task] : tasks) {
    ROPELAB_ASSIGN_OR_RETURN(v1::PromptBlock block,
                             BlockFrom(task_index, task.first, std::move(task.second)));
    blocks.push_back(std::move(block));
  }
  return blocks;
}

}  // namespace ropelab::experiments
