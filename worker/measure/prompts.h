// From a task's PromptBlock to token ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/formats/model_config.h"
#include "worker/measure/measurement.h"

namespace ropelab::measure {

using TokenIds = std::vector<int32_t>;

// Samples a block of prompts holds at most, and the multiple that its first sample is.
inline constexpr int64_t kBlockSamples = 8;

// INVALID_ARGUMENT unless first_sample is a multiple of 8 that is not negative and count is 1..8.
absl::Status CheckSamples(const v1::SampleBlock& samples);

// The block's prompts in sample order, each checked against the model. INVALID_ARGUMENT names the sample and
// what is wrong. `resources` holds what the source needs: a tokenizer for texts, and the texts of a corpus.
absl::StatusOr<std::vector<TokenIds>> RealizePrompts(const v1::PromptBlock& block,
                                                     const formats::ModelConfig& config,
                                                     const Resources& resources = {});

// Tokens of the longest prompt, from the request alone.
int64_t LongestPrompt(const v1::PromptBlock& block);

// SHA-256, hex, over int32 little-endian: for each prompt its length, then its ids.
std::string FedIdsDigest(const std::vector<TokenIds>& prompts);

}  // namespace ropelab::measure
