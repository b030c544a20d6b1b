// Merges the blocks of one (model, seed, range) of slash profiles.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ropelab/v1/reading.pb.h"
#include "server/experiments/slash_detection.h"
#include "server/statistics/moments.h"

namespace ropelab::experiments {

// Blocks must be added in plan order: the bits of a sum depend on it.
class SlashAccumulator {
 public:
  SlashAccumulator(const ModelFacts& model, const MeasuredRange& range);

  // INTERNAL for a block outside the range or of the wrong size. DATA_LOSS for a reachable score that is not
  // finite.
  absl::Status Add(const v1::SlashBlock& block);
  // INTERNAL unless every reachable score was given by exactly `prompts` prompts.
  absl::Status CheckComplete(int64_t prompts) const;

  const MeasuredRange& range() const { return range_; }
  // False beyond the layer's sliding window; then there is no score.
  bool Reachable(int64_t layer, int64_t offset) const;
  const statistics::Moments& At(int64_t layer, int64_t head, int64_t offset) const;

 private:
  size_t Index(int64_t layer, int64_t head, int64_t offset) const;

  const MeasuredRange range_;
  const int64_t layers_, heads_, offsets_;
  std::vector<int64_t> windows_;            // per layer
  std::vector<statistics::Moments> cells_;  // layer, head, offset
};

}  // namespace ropelab::experiments
