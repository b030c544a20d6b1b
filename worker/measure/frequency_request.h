// What the two frequency measurements ask alike: named heads, and prompts whose pairs turn by one set of
// frequencies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/engine/frequency_vectors.h"
#include "worker/formats/model_config.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {

inline constexpr int kMostFrequencyHeads = 512;

using NamedHeads = google::protobuf::RepeatedPtrField<v1::MeasuredHead>;

// "L3H17"
std::string HeadName(const v1::MeasuredHead& head);

// INVALID_ARGUMENT, naming the head: none or more than kMostFrequencyHeads, one that the model lacks, or not
// ascending by layer and head.
absl::StatusOr<std::vector<engine::NamedHead>> ReadFrequencyHeads(const NamedHeads& heads,
                                                                  const formats::ModelConfig& config);

// INVALID_ARGUMENT where the config's frequencies depend on a prompt's length and the prompts have several:
// there is then no one frequency that a pair's figures belong to.
absl::Status CheckOneFrequency(const std::vector<TokenIds>& prompts, const formats::ModelConfig& config);

// The RoPE pairs of a prompt of `tokens` tokens, fastest first.
struct FrequencyPairs {
  std::vector<int64_t> places;  // where a pair is stored: dimensions place and place + D/2
  std::vector<double> theta;    // rad/token
};
FrequencyPairs PairsOfPrompt(const formats::ModelConfig& config, int64_t tokens);

}  // namespace ropelab::measure
