#include "worker/measure/prompts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/engine/random.h"
#include "worker/measure/needle_prompts.h"
#include "worker/measure/text_prompts.h"

namespace ropelab::measure {
namespace {

void AppendLittleEndian(uint32_t value, std::string& to) {
  for (int shift = 0; shift < 32; shift += 8) to.push_back(static_cast<char>(value >> shift & 0xff));
}

// All ids of the vocabulary less the excluded ones, ascending.
absl::StatusOr<TokenIds> AllowedIds(const v1::UniformPrompts& request, const formats::ModelConfig& config) {
  if (request.vocabulary() < 1 || request.vocabulary() > config.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("uniform prompts over ", request.vocabulary(),
                                                   " ids: the model's embedding has ", config.vocabulary,
                                                   " rows"));
  }
  TokenIds excluded(request.excluded_ids().begin(), request.excluded_ids().end());
  std::ranges::sort(excluded);
  TokenIds allowed;
  for (int32_t id = 0; id < request.vocabulary(); ++id) {
    if (!std::ranges::binary_search(excluded, id)) allowed.push_back(id);
  }
  if (allowed.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("uniform prompts: all ", request.vocabulary(), " ids of the vocabulary are excluded"));
  }
  return allowed;
}

absl::StatusOr<std::vector<TokenIds>> UniformPrompts(const v1::UniformPrompts& request,
                                                     const v1::SampleBlock& samples,
                                                     const formats::ModelConfig& config) {
  if (request.tokens() < 1 || request.tokens() > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("uniform prompts of ", request.tokens(),
                                                   " tokens: the model takes 1 to ", config.max_positions));
  }
  ROPELAB_ASSIGN_OR_RETURN(const TokenIds allowed, AllowedIds(request, config));
  std::vector<TokenIds> prompts;
  for (int64_t s = 0; s < samples.count(); ++s) {
    engine::Philox stream(request.seed(), engine::Purpose::kUniformTokens,
                          static_cast<uint64_t>(samples.first_sample() + s));
    TokenIds& ids = prompts.emplace_back();
    if (request.has_bos_token_id()) ids.push_back(request.bos_token_id());
    while (static_cast<int64_t>(ids.size()) < request.tokens())
      ids.push_back(allowed[stream.Integer(allowed.size())]);
  }
  return prompts;
}

absl::StatusOr<std::vector<TokenIds>> GivenPrompts(const v1::TokenIdPrompts& given,
                                                   const v1::SampleBlock& samples) {
  if (given.prompts_size() != samples.count()) {
    return absl::InvalidArgumentError(absl::StrCat("the block has ", samples.count(), " samples but ",
                                                   given.prompts_size(), " given prompts"));
  }
  std::vector<TokenIds> prompts;
  for (const v1::TokenIds& prompt : given.prompts())
    prompts.emplace_back(prompt.ids().begin(), prompt.ids().end());
  return prompts;
}

absl::StatusOr<std::vector<TokenIds>> PromptsOf(const v1::PromptBlock& block,
                                                const formats::ModelConfig& config,
                                                const Resources& resources) {
  const bool from_text = block.has_corpus() || block.has_generated() || block.has_needle();
  if (from_text && (resources.tokenizer == nullptr || (block.has_corpus() && resources.texts == nullptr))) {
    return absl::FailedPreconditionError("prompts from text need a tokenizer, and here is none");
  }
  switch (block.source_case()) {
    case v1::PromptBlock::kUniform:
      return UniformPrompts(block.uniform(), block.samples(), config);
    case v1::PromptBlock::kGiven:
      return GivenPrompts(block.given(), block.samples());
    case v1::PromptBlock::kCorpus:
      return CorpusPrompts(block.corpus(), block.samples(), config, *resources.tokenizer, *resources.texts);
    case v1::PromptBlock::kGenerated:
      return GeneratedPrompts(block.generated(), block.samples(), config, *resources.tokenizer);
    case v1::PromptBlock::kNeedle:
      return NeedlePromptIds(block.needle(), block.samples(), config, resources);
    case v1::PromptBlock::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the block names no source of prompts that this worker knows");
}

}  // namespace

absl::Status CheckSamples(const v1::SampleBlock& samples) {
  if (samples.first_sample() < 0 || samples.first_sample() % kBlockSamples != 0 || samples.count() < 1 ||
      samples.count() > kBlockSamples) {
    return absl::InvalidArgumentError(absl::StrCat("samples ", samples.first_sample(), " to ",
                                                   samples.first_sample() + samples.count() - 1,
                                                   " are not an aligned block: it starts at a multiple of ",
                                                   kBlockSamples, " and holds 1 to ", kBlockSamples));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenIds>> RealizePrompts(const v1::PromptBlock& block,
                                                     const formats::ModelConfig& config,
                                                     const Resources& resources) {
  ROPELAB_RETURN_IF_ERROR(CheckSamples(block.samples()));
  absl::StatusOr<std::vector<TokenIds>> prompts = PromptsOf(block, config, resources);
  if (!prompts.ok()) return prompts.status();
  for (size_t s = 0; s < prompts->size(); ++s) {
    if (const absl::Status status = engine::CheckPrompt((*prompts)[s], config); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("sample ", block.samples().first_sample() + static_cast<int64_t>(s),
                                       ": ", status.message()));
    }
  }
  return prompts;
}

int64_t LongestPrompt(const v1::PromptBlock& block) {
  if (block.has_uniform()) return block.uniform().tokens();
  if (block.has_corpus()) return block.corpus().tokens();
  if (block.has_generated()) return block.generated().tokens();
  int64_t longest = 0;
  for (const v1::NeedleSample& sample : block.needle().samples())
    longest = std::max(longest, sample.context_length());
  for (const v1::TokenIds& prompt : block.given().prompts())
    longest = std::max<int64_t>(longest, prompt.ids_size());
  return longest;
}

std::string FedIdsDigest(const std::vector<TokenIds>& prompts) {
  Sha256 hash;
  for (const TokenIds& ids : prompts) {
    std::string bytes;
    bytes.reserve(4 * (ids.size() + 1));
    AppendLittleEndian(static_cast<uint32_t>(ids.size()), bytes);
    for (int32_t id : ids) AppendLittleEndian(static_cast<uint32_t>(id), bytes);
    hash.Update(bytes);
  }
  return hash.FinishHex();
}

}  // namespace ropelab::measure
