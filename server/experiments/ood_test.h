// ood_test: do the heads that a slash detection finds keep their slash on other prompts? The slash paper,
// section 4.1; docs/experiments/ood_test.md.
//
// Stages: those of the detection; then, if it found a dominant head, those of the same detection over the
// other prompts (without its control at small offsets). The measurements are a slash detection's own, so that
// what one experiment measured the other does not measure again.
#pragma once

#include <vector>

#include "server/experiments/experiment.h"
#include "server/experiments/slash_groups.h"

namespace ropelab::experiments {

class OodTestExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

// The test's halves as slash detections: the same offsets, threshold and means, over either prompts.
v1::ExperimentSpec InDistribution(const v1::ExperimentSpec& spec);
v1::ExperimentSpec OutOfDistribution(const v1::ExperimentSpec& spec);
// What the second half measures.
std::vector<MeasuredRange> OutOfDistributionRanges(const v1::ExperimentSpec& spec);

// Readings of the second half, as its own detection counts stages.
class LaterReadings : public StageReadings {
 public:
  LaterReadings(StageReadings& readings, int64_t stages_before)
      : readings_(readings), stages_before_(stages_before) {}
  absl::Status ForEach(int64_t stage,
                       absl::FunctionRef<absl::Status(int64_t task_index, const v1::Measurement& measurement,
                                                      const v1::Reading& reading)>
                           visit) override {
    return readings_.ForEach(stage + stages_before_, visit);
  }

 private:
  StageReadings& readings_;
  const int64_t stages_before_;
};

// A dominant head, at its best offset in distribution.
struct DominantHead {
  int64_t layer = 0, head = 0, offset = 0;
  double score = 0;
};
std::vector<DominantHead> DominantHeadsOf(const v1::SlashDetection& detection, const DetectionGroup& group);

}  // namespace ropelab::experiments
