#include "server/experiments/checkpoint_sweep.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/sweep_runs.h"

namespace ropelab::experiments {

double CheckpointAxis(const v1::CheckpointSweep& sweep, size_t checkpoint) {
  const v1::Checkpoint& point = sweep.checkpoints(static_cast<int>(checkpoint));
  return static_cast<double>(point.has_tokens_seen() ? point.tokens_seen()
                                                     : static_cast<int64_t>(checkpoint));
}

absl::Status CheckConsecutive(const v1::CheckpointSweep& sweep, const std::vector<ModelFacts>& models) {
  for (size_t i = 1; i < models.size(); ++i) {
    const std::string& hash = models[i].weights_hash;
    if (!hash.empty() && hash == models[i - 1].weights_hash) {
      return absl::FailedPreconditionError(absl::StrCat(
          "checkpoints ", i - 1, " and ", i, ", ", sweep.checkpoints(static_cast<int>(i) - 1).model(),
          " and ", sweep.checkpoints(static_cast<int>(i)).model(), ", hold the same weights (",
          hash.substr(0, 16),
          "), so nothing was trained between them; put the right weights into their "
          "folders, or leave one of them out"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<StagePlan>> CheckpointSweepExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                         const Context& context,
                                                                         int64_t stage,
                                                                         StageReadings& readings) const {
  ROPELAB_RETURN_IF_ERROR(CheckConsecutive(spec.checkpoint_sweep(), context.models));
  return PlanRuns(spec.checkpoint_sweep().detection(), {&spec, 1}, context, stage, readings);
}

v1::Estimate CheckpointSweepExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  return CostOfRuns(spec.checkpoint_sweep().detection(), {&spec, 1}, facts);
}

}  // namespace ropelab::experiments
