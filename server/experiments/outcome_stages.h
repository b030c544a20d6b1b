// The stages of a kind that outcome_fields.h names, and the tasks of the last one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"
#include "server/experiments/needles.h"
#include "server/experiments/prompt_stages.h"
#include "server/experiments/utilities.h"

namespace ropelab::experiments {

// The readings of a stage and those after it, for a finder that counts its own stages from 1.
class ReadingsFrom : public StageReadings {
 public:
  // `readings` must outlive it. Stage 1 here is stage `before` + 1 there.
  ReadingsFrom(StageReadings& readings, int64_t before) : readings_(readings), before_(before) {}
  absl::Status ForEach(
      int64_t stage,
      absl::FunctionRef<absl::Status(int64_t, const v1::Measurement&, const v1::Reading&)> visit) override {
    return readings_.ForEach(before_ + stage, visit);
  }

 private:
  StageReadings& readings_;
  const int64_t before_;
};

struct OutcomeStages {
  StagePlan before;    // the next stage to run first; empty: all is known, and the rest is filled
  int64_t stages = 0;  // before the one that measures
  std::vector<Utilities> utilities;  // one per model; empty where no condition needs them
  FoundNeedles needles;
  std::optional<FoundPrompts> prompts;  // of the perplexity

  const Utilities* UtilitiesOf(size_t model) const { return utilities.empty() ? nullptr : &utilities[model]; }
};
// What the stages before `stage` settle. Planning again gives the same. Errors: those of UtilityTasks,
// ReadUtilities, FindNeedles and FindPrompts.
absl::StatusOr<OutcomeStages> FindOutcomeStages(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings);

// One task of the stage that measures: some conditions on a block of needles, or of the perplexity's prompts.
struct OutcomeTask {
  size_t model = 0, seed = 0;  // indices
  bool losses = false;         // else answers to needles
  int64_t block = 0;
  size_t first = 0, end = 0;  // of the measured conditions
};
// Of one model and seed, in plan order: needle block by needle block, then prompt block by prompt block, in
// each the model as it is alone and then the other conditions, kConditionsPerTask at a time.
std::vector<OutcomeTask> OutcomeTasksOf(const FoundNeedles& needles, const FoundPrompts* prompts,
                                        size_t conditions, size_t model, size_t seed);

// The measurement of such a task, all but the model's identity. `seeds`: of the spec.
v1::ConditionOutcomes OutcomeMeasurement(const OutcomeTask& task,
                                         const std::vector<v1::Condition>& conditions,
                                         const FoundNeedles& needles, const FoundPrompts* prompts,
                                         const ModelFacts& model, size_t seeds);

}  // namespace ropelab::experiments
