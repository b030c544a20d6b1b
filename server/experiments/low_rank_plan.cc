#include <utility>

#include "common/status_macros.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/model_names.h"
#include "server/experiments/prompt_stages.h"

namespace ropelab::experiments {
namespace {

absl::StatusOr<StagePlan> PlanOutcomes(const v1::ExperimentSpec& spec, const Context& context,
                                       const FoundPrompts& found) {
  const size_t seeds = static_cast<size_t>(spec.seeds_size());
  StagePlan plan;
  for (size_t m = 0; m < context.models.size(); ++m) {
    const ModelFacts& model = context.models[m];
    ROPELAB_ASSIGN_OR_RETURN(const v1::ModelIdentity identity, IdentityOf(spec, model));
    for (size_t s = 0; s < seeds; ++s) {
      const uint64_t seed = spec.seeds(static_cast<int>(s));
      ROPELAB_ASSIGN_OR_RETURN(const LowRankConditions conditions,
                               LowRankConditionsOf(spec, context, m, seed));
      for (int64_t block = 0; block < found.blocks; ++block) {
        PlannedTask task;
        task.model = model.name;
        *task.measurement.mutable_model() = identity;
        v1::ConditionOutcomes& outcomes = *task.measurement.mutable_condition_outcomes();
        *outcomes.mutable_prompts() = found.At(m, s, seeds, block);
        for (const v1::Condition& condition : conditions.measured) {
          *outcomes.add_conditions() = condition;
        }
        plan.push_back(std::move(task));
      }
    }
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::optional<StagePlan>> LowRankExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                 const Context& context, int64_t stage,
                                                                 StageReadings& readings) const {
  ROPELAB_ASSIGN_OR_RETURN(FoundPrompts found, FindPrompts(spec.low_rank().perplexity().prompts(), spec,
                                                           context, stage, readings));
  if (!found.before.empty()) {
    return std::optional<StagePlan>(std::move(found.before));
  }
  if (stage > found.stages + 1) {
    return std::optional<StagePlan>();
  }
  ROPELAB_ASSIGN_OR_RETURN(StagePlan plan, PlanOutcomes(spec, context, found));
  return std::optional<StagePlan>(std::move(plan));
}

}  // namespace ropelab::experiments
