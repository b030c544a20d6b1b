#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/model_names.h"
#include "server/experiments/outcome.h"
#include "server/experiments/outcome_conditions.h"
#include "server/experiments/outcome_stages.h"

namespace ropelab::experiments {
namespace {

// How large a plan becomes, now that the heads are known. Sizes are added before their tasks are made.
class PlanSizes {
 public:
  absl::Status Add(const OutcomeConditions& conditions, int64_t samples, int64_t blocks) {
    int64_t bytes = 0;
    for (const v1::Condition& condition : conditions.measured) {
      bytes += static_cast<int64_t>(condition.ByteSizeLong());
    }
    tasks_ += blocks * OutcomeTasksPerBlock(static_cast<int64_t>(conditions.measured.size()));
    rows_ += samples * static_cast<int64_t>(conditions.list.size());
    bytes_ += blocks * bytes;
    constexpr char kFewer[] = "; fewer samples, draws, conditions, heads (top or top_share) or seeds";
    if (tasks_ > kMostOutcomeTasks) {
      return absl::FailedPreconditionError(
          absl::StrCat("the conditions make over ", kMostOutcomeTasks, " tasks", kFewer));
    }
    if (rows_ > kMostOutcomeRows) {
      return absl::FailedPreconditionError(
          absl::StrCat("the conditions make over ", kMostOutcomeRows, " answers", kFewer));
    }
    if (bytes_ > kMostOutcomePlanBytes) {
      return absl::FailedPreconditionError(absl::StrCat("the conditions of all tasks take over ",
                                                        kMostOutcomePlanBytes >> 20, " MiB", kFewer));
    }
    return absl::OkStatus();
  }

 private:
  int64_t tasks_ = 0, rows_ = 0, bytes_ = 0;
};

absl::StatusOr<StagePlan> PlanOutcomes(const v1::ExperimentSpec& spec, const Context& context,
                                       const OutcomeStages& found) {
  const size_t seeds = static_cast<size_t>(spec.seeds_size());
  const FoundPrompts* prompts = found.prompts.has_value() ? &*found.prompts : nullptr;
  StagePlan plan;
  PlanSizes sizes;
  for (size_t m = 0; m < context.models.size(); ++m) {
    const ModelFacts& model = context.models[m];
    ROPELAB_ASSIGN_OR_RETURN(const v1::ModelIdentity identity, IdentityOf(spec, model));
    for (size_t s = 0; s < seeds; ++s) {
      ROPELAB_ASSIGN_OR_RETURN(
          const OutcomeConditions conditions,
          OutcomeConditionsOf(spec, context, m, spec.seeds(static_cast<int>(s)), found.UtilitiesOf(m)));
      ROPELAB_RETURN_IF_ERROR(
          sizes.Add(conditions, static_cast<int64_t>(found.needles.seeds[s].kept.size()),
                    found.needles.Blocks(s) + (prompts == nullptr ? 0 : prompts->blocks)));
      for (const OutcomeTask& of : OutcomeTasksOf(found.needles, prompts, conditions.measured.size(), m, s)) {
        PlannedTask task;
        task.model = model.name;
        *task.measurement.mutable_model() = identity;
        *task.measurement.mutable_condition_outcomes() =
            OutcomeMeasurement(of, conditions.measured, found.needles, prompts, model, seeds);
        plan.push_back(std::move(task));
      }
    }
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::optional<StagePlan>> OutcomeExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                 const Context& context, int64_t stage,
                                                                 StageReadings& readings) const {
  ROPELAB_ASSIGN_OR_RETURN(OutcomeStages found, FindOutcomeStages(spec, context, stage, readings));
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
