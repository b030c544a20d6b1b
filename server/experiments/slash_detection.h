// slash_detection: which heads attend along a sub-diagonal. The slash paper, Definition 4.1 and sections 4
// and 6; docs/experiments/slash_detection.md.
//
// Stages: for `sampled` prompts first the sampling of the ids, for `corpus` prompts first as many stages of
// text lengths as it takes to find the documents (corpus_stages.h), then the slash profiles. Tasks of the
// profile stage: model by model, seed by seed, range by range (MeasuredRanges), block by block; maps come
// with the first range.
#pragma once

#include <cstdint>
#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

class SlashDetectionExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

// Heads that one experiment makes maps of, at most: each is held whole while it is reduced.
inline constexpr int64_t kMostMappedHeads = 128;

// Offsets below this count as small: the control of the slash paper's section 6.
inline constexpr int64_t kSmallOffsets = 10;

// One range of offsets that is measured in one pass.
struct MeasuredRange {
  int64_t first = 0, last = 0;
  v1::Rows::Value rows = v1::Rows::ALL;
};
// What a resolved detection measures on every block: the range asked for, and the small offsets of the
// control. With rows ALL a score does not depend on its range, so an adjoining range is widened instead; else
// the control is a second range. The first range holds every offset asked for, the last one holds every small
// offset that the prompts reach.
std::vector<MeasuredRange> MeasuredRanges(const v1::SlashDetection& detection);

// The layer's sliding window in keys seen, 0 for none.
int64_t WindowOf(const ModelFacts& model, int64_t layer);

// The score of uniform attention at each offset of [first, last] for one prompt of `tokens`: the rows and the
// denominator of the detection, in a layer with this window. 0 where no row is counted.
std::vector<double> UniformScores(const v1::SlashDetection& detection, int64_t tokens, int64_t window,
                                  int64_t first, int64_t last);

}  // namespace ropelab::experiments
