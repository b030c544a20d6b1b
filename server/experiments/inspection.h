// inspection: named tensors of one short prompt, for comparing with another implementation. One task, one
// artifact.
#pragma once

#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

class InspectionExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

}  // namespace ropelab::experiments
