// Which samples there are, which are kept, and their blocks.
#include "server/experiments/needles.h"

#include <map>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/corpus_names.h"
#include "server/experiments/prompt_rules.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kBytesPerSample = 96;  // of a reading that says how it was realised

// Which of a seed's samples a tokenizer, with its BOS or without, can carry.
struct TokenizerKey {
  std::string hash;
  bool bos = false;
  bool operator<(const TokenizerKey& other) const {
    return hash != other.hash ? hash < other.hash : bos < other.bos;
  }
};
using FitsByNumber = std::map<int64_t, bool>;
using Fits = std::map<std::pair<TokenizerKey, uint64_t>, FitsByNumber>;  // by tokenizer and seed

TokenizerKey KeyOf(const ModelFacts& model) {
  return {model.tokenizer_hash, StartsWithBos(v1::Bos::AUTO, model)};
}

absl::StatusOr<v1::NeedlePrompts> CommonOf(const v1::Needles& needles, v1::NeedlePrompts::Use use,
                                           const Context& context) {
  v1::NeedlePrompts common;
  common.set_use(use);
  common.set_needle_text(needles.needle_text());
  common.set_question_text(needles.question_text());
  common.set_code_alphabet(needles.code_alphabet());
  common.set_code_length(needles.code_length());
  common.set_chat(needles.chat());
  if (needles.haystack().has_corpus()) {
    ROPELAB_ASSIGN_OR_RETURN(const CorpusFacts corpus,
                             FindResolvedCorpus(context.corpora, needles.haystack().corpus().name()));
    common.set_corpus(corpus.sha256);
    common.set_corpus_documents(corpus.documents);
    common.set_text_field(needles.haystack().corpus().text_field());
  }
  return common;
}

v1::PromptBlock BlockFrom(const v1::NeedlePrompts& common, uint64_t seed, const ModelFacts& model,
                          int64_t block, int64_t samples,
                          absl::FunctionRef<v1::NeedleSample(int64_t)> sample) {
  v1::PromptBlock result;
  *result.mutable_samples() = BlockOf(block, samples);
  v1::NeedlePrompts& needle = *result.mutable_needle();
  needle = common;
  needle.set_seed(seed);
  if (StartsWithBos(v1::Bos::AUTO, model)) {
    needle.set_bos_token_id(model.config.bos_token_id());
  }
  for (int64_t i = 0; i < result.samples().count(); ++i) {
    *needle.add_samples() = sample(result.samples().first_sample() + i);
  }
  return result;
}

std::vector<v1::NeedleSample> SamplesOf(const v1::Needles& needles) {
  std::vector<v1::NeedleSample> samples;
  for (int64_t number = 0; number < NeedleCount(needles); ++number) {
    samples.push_back(NeedleSampleOf(needles, number));
  }
  return samples;
}

// Asks every tokenizer about every sample.
StagePlan AskAll(const v1::NeedlePrompts& common, const std::vector<uint64_t>& seeds,
                 const std::vector<ModelFacts>& models, const std::vector<v1::NeedleSample>& samples) {
  StagePlan plan;
  std::set<TokenizerKey> asked;
  for (const ModelFacts& model : models) {
    if (!asked.insert(KeyOf(model)).second) {
      continue;
    }
    for (const uint64_t seed : seeds) {
      for (int64_t block = 0; block < BlockCount(static_cast<int64_t>(samples.size())); ++block) {
        PlannedTask& task = plan.emplace_back();
        task.model = model.name;
        task.measurement.mutable_model()->set_tokenizer_hash(model.tokenizer_hash);
        *task.measurement.mutable_text_lengths()->mutable_needles() =
            BlockFrom(common, seed, model, block, static_cast<int64_t>(samples.size()),
                      [&](int64_t number) { return samples[static_cast<size_t>(number)]; });
      }
    }
  }
  return plan;
}

absl::StatusOr<Fits> ReadFits(StageReadings& readings, int64_t stage) {
  Fits fits;
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(
      stage,
      [&](int64_t task_index, const v1::Measurement& measurement,
          const v1::Reading& reading) -> absl::Status {
        if (!measurement.text_lengths().has_needles()) {
          return absl::OkStatus();
        }
        if (!reading.has_realised_needle()) {
          return absl::InternalError(
              absl::StrCat("task ", task_index, " of stage ", stage, " gave no lengths of needles"));
        }
        const v1::NeedlePrompts& asked = measurement.text_lengths().needles().needle();
        const TokenizerKey key = {measurement.model().tokenizer_hash(), asked.has_bos_token_id()};
        const v1::RealisedNeedle& found = reading.realised_needle();
        fits[{key, asked.seed()}][found.sample()] = found.fits();
        return absl::OkStatus();
      }));
  return fits;
}

// The first model that sample `number` does not fit; null when it fits all.
absl::StatusOr<const ModelFacts*> FirstTooSmall(const Fits& fits, const std::vector<ModelFacts>& models,
                                                uint64_t seed, int64_t number) {
  for (const ModelFacts& model : models) {
    const auto of_tokenizer = fits.find({KeyOf(model), seed});
    const bool known = of_tokenizer != fits.end() && of_tokenizer->second.count(number) > 0;
    if (!known) {
      return absl::InternalError(absl::StrCat("the stage of needle lengths said nothing of sample ", number,
                                              " of seed ", seed, " for model ", model.name));
    }
    if (!of_tokenizer->second.at(number)) {
      return &model;
    }
  }
  return nullptr;
}

absl::StatusOr<NeedleChoice> Choose(const Fits& fits, const std::vector<ModelFacts>& models, uint64_t seed,
                                    const std::vector<v1::NeedleSample>& samples) {
  NeedleChoice choice;
  const auto same_cell = [](const v1::NeedleSample& a, const v1::NeedleSample& b) {
    return a.context_length() == b.context_length() && a.depth() == b.depth();
  };
  size_t kept_before = 0;  // when the running cell began
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i == 0 || !same_cell(samples[i], samples[i - 1])) {
      kept_before = choice.kept.size();
    }
    ROPELAB_ASSIGN_OR_RETURN(const ModelFacts* const too_small,
                             FirstTooSmall(fits, models, seed, static_cast<int64_t>(i)));
    (too_small == nullptr ? choice.kept : choice.dropped).push_back(samples[i]);
    const bool cell_ends = i + 1 == samples.size() || !same_cell(samples[i], samples[i + 1]);
    if (cell_ends && choice.kept.size() == kept_before) {
      return absl::FailedPreconditionError(absl::StrCat(
          "needles: of seed ", seed, " no sample of context length ", samples[i].context_length(),
          " at depth ", samples[i].depth(), " fits every model",
          too_small == nullptr ? std::string()
                               : absl::StrCat(" (the last one is too long for ", too_small->name,
                                              ": its tokenizer makes more ids of needle and question)"),
          "; ask for a longer context, or a shorter needle_text or question_text"));
    }
  }
  return choice;
}

}  // namespace

int64_t NeedleCount(const v1::Needles& needles) {
  const int64_t in_cell = needles.samples_per_cell();
  const bool sane = in_cell >= 1 && in_cell <= kMostPrompts;
  return sane ? int64_t{needles.context_lengths_size()} * needles.depths_size() * in_cell : 0;
}

v1::NeedleSample NeedleSampleOf(const v1::Needles& needles, int64_t number) {
  v1::NeedleSample sample;
  if (number < 0 || number >= NeedleCount(needles)) {
    return sample;
  }
  const int64_t cell = number / needles.samples_per_cell();
  sample.set_context_length(needles.context_lengths(static_cast<int>(cell / needles.depths_size())));
  sample.set_depth(needles.depths(static_cast<int>(cell % needles.depths_size())));
  sample.set_index(number % needles.samples_per_cell());
  return sample;
}

void AddNeedleStage(const v1::Needles& needles, int64_t seeds, const std::vector<ModelFacts>& models,
                    v1::Estimate& estimate) {
  std::set<TokenizerKey> tokenizers;
  for (const ModelFacts& model : models) {
    tokenizers.insert(KeyOf(model));
  }
  const int64_t asked = static_cast<int64_t>(tokenizers.size()), count = NeedleCount(needles);
  if (asked < 2) {
    return;
  }
  estimate.set_tasks(estimate.tasks() + asked * seeds * BlockCount(count));
  estimate.set_reading_bytes(estimate.reading_bytes() + asked * seeds * count * kBytesPerSample);
}

int64_t FoundNeedles::Blocks(size_t seed) const {
  return BlockCount(static_cast<int64_t>(seeds[seed].kept.size()));
}

v1::PromptBlock FoundNeedles::Block(const ModelFacts& model, size_t seed, int64_t block) const {
  const std::vector<v1::NeedleSample>& kept = seeds[seed].kept;
  return BlockFrom(common_, seed_values_[seed], model, block, static_cast<int64_t>(kept.size()),
                   [&](int64_t number) { return kept[static_cast<size_t>(number)]; });
}

absl::StatusOr<FoundNeedles> FindNeedles(const v1::Needles& needles, v1::NeedlePrompts::Use use,
                                         const std::vector<uint64_t>& seeds,
                                         const std::vector<ModelFacts>& models, const Context& context,
                                         int64_t stage, StageReadings& readings, int64_t first_stage) {
  if (NeedleCount(needles) < 1) {
    return absl::InternalError("needles: the spec was not resolved before it was planned");
  }
  std::set<TokenizerKey> tokenizers;
  for (const ModelFacts& model : models) {
    if (model.tokenizer_hash.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("model ", model.name, " has no tokenizer any more; put its tokenizer.json back"));
    }
    tokenizers.insert(KeyOf(model));
  }
  FoundNeedles found;
  ROPELAB_ASSIGN_OR_RETURN(found.common_, CommonOf(needles, use, context));
  found.seed_values_ = seeds;
  const std::vector<v1::NeedleSample> samples = SamplesOf(needles);
  if (tokenizers.size() < 2) {
    found.seeds.assign(seeds.size(), NeedleChoice{samples, {}});
    return found;
  }
  if (stage <= first_stage) {
    found.before = AskAll(found.common_, seeds, models, samples);
    return found;
  }
  found.stages = 1;
  ROPELAB_ASSIGN_OR_RETURN(const Fits fits, ReadFits(readings, first_stage));
  for (const uint64_t seed : seeds) {
    ROPELAB_ASSIGN_OR_RETURN(NeedleChoice choice, Choose(fits, models, seed, samples));
    found.seeds.push_back(std::move(choice));
  }
  return found;
}

absl::StatusOr<v1::PromptBlock> NeedlePromptBlock(const v1::Needles& needles, uint64_t seed,
                                                  const ModelFacts& model, const Context& context,
                                                  int64_t block) {
  ROPELAB_ASSIGN_OR_RETURN(const v1::NeedlePrompts common,
                           CommonOf(needles, v1::NeedlePrompts::TEST, context));
  return BlockFrom(common, seed, model, block, NeedleCount(needles),
                   [&](int64_t number) { return NeedleSampleOf(needles, number); });
}

absl::StatusOr<v1::NeedleSample> NeedleSampleOf(const v1::PromptBlock& prompts, int64_t sample) {
  const int64_t place = sample - prompts.samples().first_sample();
  if (place < 0 || place >= prompts.needle().samples_size()) {
    return absl::InternalError(absl::StrCat("a reading is of needle sample ", sample, ", and its task has ",
                                            prompts.needle().samples_size(), " from ",
                                            prompts.samples().first_sample(), " on"));
  }
  return prompts.needle().samples(static_cast<int>(place));
}

}  // namespace ropelab::experiments
