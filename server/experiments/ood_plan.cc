#include <algorithm>

#include "common/status_macros.h"
#include "server/experiments/ood_test.h"

namespace ropelab::experiments {
namespace {

bool IsOf(const v1::SlashProfile& profile, const MeasuredRange& range) {
  return profile.first_offset() == range.first && profile.last_offset() == range.last &&
         profile.rows() == range.rows;
}

absl::StatusOr<bool> AnyDominantHead(const v1::ExperimentSpec& in, const Context& context,
                                     StageReadings& readings) {
  const v1::SlashDetection& detection = in.slash_detection();
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<DetectionGroup> groups,
                           ReadDetection(in, context, readings, MeasuredRanges(detection)));
  return std::any_of(groups.begin(), groups.end(),
                     [&](const DetectionGroup& group) { return !DominantHeadsOf(detection, group).empty(); });
}

}  // namespace

std::vector<DominantHead> DominantHeadsOf(const v1::SlashDetection& detection, const DetectionGroup& group) {
  std::vector<DominantHead> heads;
  for (int64_t layer = 0; layer < group.model->config.layers(); ++layer) {
    for (int64_t head = 0; head < group.model->config.query_heads(); ++head) {
      const HeadFinding finding = FindingOf(detection, group.ranges.front(), layer, head);
      if (!finding.dominant_offsets.empty()) {
        const int64_t best = *finding.best_offset;
        heads.push_back({layer, head, best, group.ranges.front().At(layer, head, best).mean});
      }
    }
  }
  return heads;
}

absl::StatusOr<std::optional<StagePlan>> OodTestExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                 const Context& context, int64_t stage,
                                                                 StageReadings& readings) const {
  const SlashDetectionExperiment detection;
  const v1::ExperimentSpec in = InDistribution(spec);
  ROPELAB_ASSIGN_OR_RETURN(const std::optional<int64_t> last, ProfileStage(in, context, stage, readings));
  if (!last.has_value() || stage <= *last) {
    return detection.Plan(in, context, stage, readings);
  }
  ROPELAB_ASSIGN_OR_RETURN(const bool any, AnyDominantHead(in, context, readings));
  if (!any) {
    return std::optional<StagePlan>();
  }
  LaterReadings later(readings, *last);
  ROPELAB_ASSIGN_OR_RETURN(std::optional<StagePlan> plan,
                           detection.Plan(OutOfDistribution(spec), context, stage - *last, later));
  if (plan.has_value()) {
    const MeasuredRange range = OutOfDistributionRanges(spec).front();
    std::erase_if(*plan, [&](const PlannedTask& task) {
      return task.measurement.has_slash_profile() && !IsOf(task.measurement.slash_profile(), range);
    });
  }
  return plan;
}

}  // namespace ropelab::experiments
