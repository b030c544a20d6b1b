#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "server/experiments/precision_test.h"
#include "server/experiments/sweep_statistics.h"
#include "server/experiments/utility_tables.h"
#include "server/statistics/correlation.h"
#include "server/statistics/sets.h"

namespace ropelab::experiments {
namespace {

std::vector<statistics::Place> PlacesOf(const std::vector<NamedHead>& heads) {
  std::vector<statistics::Place> places;
  for (const NamedHead& head : heads) {
    places.emplace_back(head.layer, head.head);
  }
  return places;
}

std::vector<double> ScoresOf(const DetectionScores& scores, v1::Metric::Value metric) {
  std::vector<double> values;
  for (const HeadFigures& head : scores.Figures(metric)) {
    values.push_back(head.score);
  }
  return values;
}

// How far two detections agree under one metric. `place` has everything but the threshold.
void AddAgreement(const DetectionScores& reference, const DetectionScores& other, v1::Metric::Value metric,
                  double threshold, StatisticsPlace place, std::vector<PlacedStatistic>& statistics) {
  const std::vector<double> x = ScoresOf(reference, metric), y = ScoresOf(other, metric);
  const statistics::Defined<double> rank = statistics::Spearman(x, y);
  StatisticsRow row;
  row.value = rank.maybe();
  row.n = static_cast<int64_t>(x.size());
  row.because = rank.because();
  statistics.push_back({place, "spearman", row});
  place.threshold = threshold;
  const statistics::Overlap overlap =
      statistics::OverlapOf(PlacesOf(LabelledHeads(reference, metric, threshold)),
                            PlacesOf(LabelledHeads(other, metric, threshold)));
  const statistics::Defined<double> jaccard = statistics::Jaccard(overlap);
  row.value = jaccard.maybe();
  row.n = overlap.first + overlap.second - overlap.shared;
  row.because = jaccard.because();
  statistics.push_back({place, "jaccard", row});
  row.value = static_cast<double>(overlap.shared);
  row.because = "";
  statistics.push_back({place, "shared_heads", row});
}

}  // namespace

absl::StatusOr<Results> PrecisionTestExperiment::Reduce(const v1::ExperimentSpec& spec,
                                                        const Context& context,
                                                        StageReadings& readings) const {
  const v1::RetrievalDetection& detection = spec.precision_test().detection();
  ROPELAB_ASSIGN_OR_RETURN(SweepReadings read, ReadRuns(detection, DtypeVariants(spec), context, readings));
  std::vector<PlacedStatistic> statistics;
  HeadScoresTable scores(context.numerics_class);
  UtilitiesTable utilities(context.numerics_class);
  const size_t models = context.models.size();
  for (size_t i = 0; i < read.runs.size(); ++i) {
    const SweepRun& run = read.runs[i];
    AddRunStatistics(run, detection, spec, context.numerics_class, std::nullopt, statistics);
    utilities.Add(run.label, v1::Dtype::Value_Name(run.dtype), std::nullopt, run.utilities);
    for (size_t seed = 0; seed < run.seeds.size(); ++seed) {
      const uint64_t value = spec.seeds(static_cast<int>(seed));
      scores.Add({run.label, run.dtype, std::nullopt, value}, run.seeds[seed], detection.threshold());
      if (i < models) {
        continue;  // the reference itself
      }
      for (const v1::Metric::Value metric : run.seeds[seed].metrics()) {
        StatisticsPlace place{run.label, v1::Dtype::Value_Name(run.dtype), context.numerics_class};
        place.detector = MetricName(metric);
        place.seed = static_cast<int64_t>(value);
        AddAgreement(read.runs[i % models].seeds[seed], run.seeds[seed], metric, detection.threshold(), place,
                     statistics);
      }
    }
  }
  Results results;
  results.tables.push_back(scores.Finish());
  results.tables.push_back(std::move(read.needle_samples));
  results.tables.push_back(StatisticsOf(std::move(statistics)));
  results.tables.push_back(utilities.Finish());
  return results;
}

}  // namespace ropelab::experiments
