// retrieval_detection: which heads look at a needle when it is asked for. The retrieval-head paper, sections
// 3.2, 3.3 and 4; docs/experiments/retrieval_detection.md.
//
// Stages: where the models have several tokenizers one that asks which samples fit every model (needles.h),
// then what the heads look at. Tasks of that stage: model by model, seed by seed, block by block.
#pragma once

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

class RetrievalDetectionExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

}  // namespace ropelab::experiments
