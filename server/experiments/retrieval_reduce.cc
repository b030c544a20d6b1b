#include <utility>

#include "common/status_macros.h"
#include "server/experiments/retrieval_detection.h"
#include "server/experiments/retrieval_groups.h"
#include "server/experiments/retrieval_statistics.h"

namespace ropelab::experiments {

absl::StatusOr<Results> RetrievalDetectionExperiment::Reduce(const v1::ExperimentSpec& spec,
                                                             const Context& context,
                                                             StageReadings& readings) const {
  const v1::RetrievalDetection& detection = spec.retrieval_detection();
  NeedleSamplesTable samples;
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<RetrievalGroup> groups,
                           ReadRetrieval(spec, context, readings, samples));
  HeadScoresTable scores(context.numerics_class);
  for (const RetrievalGroup& group : groups) {
    scores.Add(group.place, group.scores, detection.threshold());
  }
  Results results;
  results.tables.push_back(scores.Finish());
  results.tables.push_back(samples.Finish());
  for (Table& table : RetrievalStatistics(detection, groups, context.numerics_class)) {
    results.tables.push_back(std::move(table));
  }
  return results;
}

}  // namespace ropelab::experiments
