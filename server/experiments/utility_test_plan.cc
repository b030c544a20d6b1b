#include <utility>

#include "common/status_macros.h"
#include "server/experiments/utilities.h"
#include "server/experiments/utility_test.h"

namespace ropelab::experiments {

absl::StatusOr<std::optional<StagePlan>> UtilityTestExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                     const Context& context, int64_t stage,
                                                                     StageReadings& /*readings*/) const {
  if (stage > 1) {
    return std::optional<StagePlan>();
  }
  ROPELAB_ASSIGN_OR_RETURN(StagePlan plan, UtilityTasks(spec, context, spec.utility_test().fold_norm()));
  return std::optional<StagePlan>(std::move(plan));
}

}  // namespace ropelab::experiments
