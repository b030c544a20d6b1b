// checkpoint_sweep: when do retrieval heads appear in training, and what happens to query rows meanwhile? The
// retrieval-head paper, section 5; docs/experiments/checkpoint_sweep.md.
//
// Stages and tasks: sweep_runs.h, the checkpoints in the order of training. A sweep's models are its
// checkpoints': spec_rules.h writes them into the resolved spec's `models`.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

class CheckpointSweepExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

// Where a checkpoint stands on the axis of its curves: the tokens seen, or its place in the list from 0.
double CheckpointAxis(const v1::CheckpointSweep& sweep, size_t checkpoint);

// FAILED_PRECONDITION: a checkpoint has the weights of the one before it (names both and their hash). A
// training changes every weight, so this is a folder that was copied, linked or never written. Hashes that
// are not known yet are passed over.
absl::Status CheckConsecutive(const v1::CheckpointSweep& sweep, const std::vector<ModelFacts>& models);

}  // namespace ropelab::experiments
