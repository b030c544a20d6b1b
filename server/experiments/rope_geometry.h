// rope_geometry: what RoPE does to one query and one key. docs/experiments/rope_geometry.md. One task,
// without a model.
#pragma once

#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

class RopeGeometryExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  // `frequencies` (the ladder), `series` (norm against position; alias lags of every hand against their
  // distance in rad), `statistics`, and the score matrix as an artifact.
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

// Whether the seed moves a number: vectors that are left out, or content that varies, are drawn from it.
bool DrawsFromSeed(const v1::RopeGeometry& geometry);

// theta_l = base^(-2(l-1)/head_dim) in rad/token, l = 1..head_dim/2.
std::vector<double> FrequencyLadder(int64_t head_dim, double base);

}  // namespace ropelab::experiments
