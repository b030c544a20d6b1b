#include <utility>

#include "common/status_macros.h"
#include "server/experiments/maps_results.h"
#include "server/experiments/slash_detection.h"
#include "server/experiments/slash_tables.h"

namespace ropelab::experiments {

absl::StatusOr<Results> SlashDetectionExperiment::Reduce(const v1::ExperimentSpec& spec,
                                                         const Context& context,
                                                         StageReadings& readings) const {
  const v1::SlashDetection& detection = spec.slash_detection();
  ROPELAB_ASSIGN_OR_RETURN(std::vector<DetectionGroup> groups,
                           ReadDetection(spec, context, readings, MeasuredRanges(detection)));
  SortGroups(groups);
  SlashTables tables(detection, context.numerics_class);
  for (const DetectionGroup& group : groups) {
    tables.Add(group);
  }
  Results results;
  AddMapStatistics(detection, groups, context.numerics_class, tables.statistics());
  results = tables.Finish();
  AddMaps(detection, groups, context.numerics_class, results);
  return results;
}

}  // namespace ropelab::experiments
