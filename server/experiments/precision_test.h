// precision_test: are the same heads found when the weights are rounded? The retrieval-head paper, section 7;
// docs/experiments/precision_test.md.
//
// Stages and tasks: sweep_runs.h, dtype by dtype. The first dtype is the reference.
#pragma once

#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

class PrecisionTestExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

// The resolved spec once per dtype, in their order, with that dtype as its own.
std::vector<v1::ExperimentSpec> DtypeVariants(const v1::ExperimentSpec& spec);

}  // namespace ropelab::experiments
