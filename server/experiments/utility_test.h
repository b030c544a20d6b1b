// utility_test: do retrieval heads have larger or smaller rows in their query projection than the rest? The
// retrieval paper, sections 3.4, 3.6 and 4; docs/experiments/utility_test.md.
//
// One stage: a task per model (utilities.h). Which heads are labelled comes from the spec's head set.
#pragma once

#include <cstdint>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

class UtilityTestExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

inline constexpr int64_t kMostPermutations = 1000000;

}  // namespace ropelab::experiments
