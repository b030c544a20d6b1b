#include <utility>

#include "common/status_macros.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/low_rank_stages.h"
#include "server/experiments/model_names.h"

namespace ropelab::experiments {
absl::StatusOr<LowRankStages> FindLowRankStages(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) {
  const v1::LowRank& low_rank = spec.low_rank();
  LowRankStages found;
  ROPELAB_ASSIGN_OR_RETURN(found.prompts,
                           FindPrompts(low_rank.perplexity().prompts(), spec, context, stage, readings));
  if (!found.prompts.before.empty()) {
    found.before = std::move(found.prompts.before);
    return found;
  }
  found.stages = found.prompts.stages;
  if (low_rank.has_needles()) {
    const std::vector<uint64_t> seeds(spec.seeds().begin(), spec.seeds().end());
    ROPELAB_ASSIGN_OR_RETURN(found.needles,
                             FindNeedles(low_rank.needles(), v1::NeedlePrompts::TEST, seeds, context.models,
                                         context, stage, readings, found.stages + 1));
    found.before = std::move(found.needles->before);
    found.stages += found.needles->stages;
  }
  return found;
}

std::vector<OutcomeTask> LowRankNeedleTasks(const LowRankStages& found, const std::vector<size_t>& conditions,
                                            size_t seeds) {
  std::vector<OutcomeTask> tasks;
  for (size_t group = 0; found.needles.has_value() && group < conditions.size(); ++group) {
    const std::vector<OutcomeTask> own =
        OutcomeTasksOf(*found.needles, nullptr, conditions[group], group / seeds, group % seeds);
    tasks.insert(tasks.end(), own.begin(), own.end());
  }
  return tasks;
}

namespace {

absl::StatusOr<StagePlan> PlanOutcomes(const v1::ExperimentSpec& spec, const Context& context,
                                       const LowRankStages& found) {
  const size_t seeds = static_cast<size_t>(spec.seeds_size());
  StagePlan plan;
  std::vector<LowRankConditions> all;
  std::vector<size_t> counts;
  for (size_t m = 0; m < context.models.size(); ++m) {
    const ModelFacts& model = context.models[m];
    ROPELAB_ASSIGN_OR_RETURN(const v1::ModelIdentity identity, IdentityOf(spec, model));
    for (size_t s = 0; s < seeds; ++s) {
      const uint64_t seed = spec.seeds(static_cast<int>(s));
      ROPELAB_ASSIGN_OR_RETURN(LowRankConditions conditions, LowRankConditionsOf(spec, context, m, seed));
      for (int64_t block = 0; block < found.prompts.blocks; ++block) {
        PlannedTask task;
        task.model = model.name;
        *task.measurement.mutable_model() = identity;
        v1::ConditionOutcomes& outcomes = *task.measurement.mutable_condition_outcomes();
        *outcomes.mutable_prompts() = found.prompts.At(m, s, seeds, block);
        for (const v1::Condition& condition : conditions.measured) {
          *outcomes.add_conditions() = condition;
        }
        plan.push_back(std::move(task));
      }
      counts.push_back(conditions.measured.size());
      all.push_back(std::move(conditions));
    }
  }
  for (const OutcomeTask& of : LowRankNeedleTasks(found, counts, seeds)) {
    const ModelFacts& model = context.models[of.model];
    PlannedTask task;
    task.model = model.name;
    ROPELAB_ASSIGN_OR_RETURN(*task.measurement.mutable_model(), IdentityOf(spec, model));
    *task.measurement.mutable_condition_outcomes() = OutcomeMeasurement(
        of, all[of.model * seeds + of.seed].measured, *found.needles, nullptr, model, seeds);
    plan.push_back(std::move(task));
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::optional<StagePlan>> LowRankExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                 const Context& context, int64_t stage,
                                                                 StageReadings& readings) const {
  ROPELAB_ASSIGN_OR_RETURN(LowRankStages found, FindLowRankStages(spec, context, stage, readings));
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
