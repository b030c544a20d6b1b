// shallow_training: a transformer of two layers must learn a slash. docs/experiments/shallow_training.md. One
// task per seed and run, without a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

class ShallowTrainingExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  // `series` (per seed, run and figure: the trajectory) and `statistics`.
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

inline constexpr int64_t kShallowBatch = 256;     // prompts of a step
inline constexpr int64_t kShallowWatched = 1024;  // those that every step's figures are taken on
inline constexpr int64_t kShallowJudged = 4096;   // those of the end's figures

// One training: the spec's own, or one with other frequencies of the first block and stage I alone.
struct ShallowVariant {
  enum class Role {
    kFull,      // what the spec says
    kMustFail,  // a counter-experiment
    kBand,      // some frequencies zeroed; no verdict
  };
  std::string name;  // leads the names of its statistics
  Role role = Role::kFull;
  std::vector<double> theta;  // empty: the band to zero is, so nothing is run
  int64_t first_steps = 0, second_steps = 0;
  double ceiling = 0;  // of a counter-experiment: no row's least S1 may ever exceed it
};

int64_t PositionsOf(const v1::ShallowTraining& training);          // N = 2 pairs + 1
std::vector<double> ThetaOf(const v1::ShallowTraining& training);  // of the first block, descending
// `training` is resolved; the full run comes first.
std::vector<ShallowVariant> VariantsOf(const v1::ShallowTraining& training);

// Bytes that a worker needs for a training at most: tables of [frequencies, N, N] doubles and the largest set
// of prompts.
double ShallowMemory(int64_t features, int64_t pairs, int64_t frequencies);

}  // namespace ropelab::experiments
