// What edits of a set of heads do to recall and perplexity: knockout, patch, per_head_patch, dose_sweep,
// coverage_sweep and context_sweep, which differ in their lists of conditions alone. The retrieval paper,
// section 6; docs/experiments/knockout.md and patch.md.
//
// Stages: one that measures the utilities of query dimensions where a condition needs them, those that find
// the needles (needles.h) and the prompts of the perplexity (prompt_stages.h), then one that measures: model
// by model and seed by seed, needles block by block and prompts block by block, a task per
// kConditionsPerTask conditions.
#pragma once

#include <cstdint>
#include <string>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

class OutcomeExperiment : public Experiment {
 public:
  // `field`: of ExperimentSpec, one of the six.
  explicit OutcomeExperiment(const char* field) : field_(field) {}
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;

 private:
  const char* field_;
};

// The model as it is has a task of its own, so that experiments on the same samples share it; the others go
// in portions of this many, which decode side by side.
inline constexpr int64_t kConditionsPerTask = 8;
inline constexpr int64_t kAnswerTokens = 20;  // EXPERIMENTS.md section 6

inline constexpr int64_t kMostOutcomeConditions = 4096;         // of one model and seed
inline constexpr int64_t kMostOutcomeBytes = int64_t{1} << 20;  // of the conditions of a task
inline constexpr int64_t kMostOutcomeTasks = 1000000;
inline constexpr int64_t kMostOutcomeRows = int64_t{1} << 20;  // of the table outcomes
// Of the conditions of all tasks together, which a plan holds at once.
inline constexpr int64_t kMostOutcomePlanBytes = int64_t{1} << 30;

// The most conditions that one model and seed can have, the model as it is included: as if every draw found
// other heads. `heads`: of the set, which matters one head at a time alone.
int64_t MostOutcomeConditions(const v1::ExperimentSpec& spec, int64_t heads);
// Adds what makes a resolved spec too large: conditions, tasks or rows. Heads that are not known yet count as
// one, and no set counts more than its model has; planning checks again once they are known.
void CheckOutcomeSizes(const v1::ExperimentSpec& spec, const Facts& facts, Problems& problems);

// For estimates: tasks that a block of prompts takes, and operations that one condition takes on all needles
// of a seed.
int64_t OutcomeTasksPerBlock(int64_t conditions);
double NeedleFlops(const v1::Needles& needles, const ModelFacts& model);
inline constexpr int64_t kBytesPerAnswer = 200;  // of a reading: text, ids, and where it belongs

}  // namespace ropelab::experiments
