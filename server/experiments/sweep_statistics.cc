#include "server/experiments/sweep_statistics.h"

#include <algorithm>
#include <utility>

namespace ropelab::experiments {
namespace {

HeadScoreMap ScoresOf(const DetectionScores& scores, v1::Metric::Value metric) {
  HeadScoreMap map;
  for (const HeadFigures& head : scores.Figures(metric)) {
    map[{head.layer, head.head}] = head.score;
  }
  return map;
}

void AddRows(const StatisticsPlace& place, const std::vector<std::pair<std::string, StatisticsRow>>& rows,
             std::vector<PlacedStatistic>& statistics) {
  for (const auto& [name, row] : rows) {
    statistics.push_back({place, name, row});
  }
}

// Of one seed and metric.
void AddTests(const SweepRun& run, size_t seed_index, uint64_t seed, v1::Metric::Value metric,
              const v1::RetrievalDetection& detection, StatisticsPlace place,
              std::vector<PlacedStatistic>& statistics) {
  const DetectionScores& scores = run.seeds[seed_index];
  place.detector = MetricName(metric);
  place.seed = static_cast<int64_t>(seed);
  AddRows(place,
          RowsOf(CorrelateUtilities(run.utilities, ScoresOf(scores, metric),
                                    v1::PartialCorrelation::DEMEAN_FIRST, seed)),
          statistics);
  // Neighbouring thresholds often label the same heads, and the test is what takes time.
  std::vector<NamedHead> last;
  std::optional<UtilityFigures> figures;
  for (const double threshold : ThresholdsOf(detection)) {
    std::vector<NamedHead> labelled = LabelledHeads(scores, metric, threshold);
    if (!figures.has_value() || labelled != last) {
      figures = TestUtilities(run.utilities, labelled, statistics::kPermutations, seed);
      last = std::move(labelled);
    }
    place.threshold = threshold;
    AddRows(place, RowsOf(*figures), statistics);
  }
}

}  // namespace

std::vector<NamedHead> LabelledHeads(const DetectionScores& scores, v1::Metric::Value metric,
                                     double threshold) {
  const std::vector<HeadFigures> figures = scores.Figures(metric);
  const std::vector<bool> labels = scores.Labels(metric, threshold);
  std::vector<NamedHead> heads;
  for (size_t i = 0; i < figures.size(); ++i) {
    if (labels[i]) {
      heads.push_back({figures[i].layer, figures[i].head, std::nullopt});
    }
  }
  return heads;
}

void AddRunStatistics(const SweepRun& run, const v1::RetrievalDetection& detection,
                      const v1::ExperimentSpec& spec, const std::string& numerics_class,
                      const std::optional<std::string>& checkpoint,
                      std::vector<PlacedStatistic>& statistics) {
  StatisticsPlace place;
  place.model = run.label;
  place.dtype = v1::Dtype::Value_Name(run.dtype);
  place.numerics_class = numerics_class;
  place.checkpoint = checkpoint;
  StatisticsRow mean;
  mean.value = run.utilities.OfModel();
  mean.n = run.utilities.layers() * run.utilities.heads();
  statistics.push_back({place, "mean_utility", mean});
  for (size_t seed = 0; seed < run.seeds.size(); ++seed) {
    for (const v1::Metric::Value metric : run.seeds[seed].metrics()) {
      AddTests(run, seed, spec.seeds(static_cast<int>(seed)), metric, detection, place, statistics);
    }
  }
}

Table StatisticsOf(std::vector<PlacedStatistic> statistics) {
  // What has no seed has no mean over seeds, and neither has what is said of all checkpoints together: an
  // onset is one of them.
  const auto rest = std::stable_partition(statistics.begin(), statistics.end(), [](const auto& one) {
    return one.place.seed.has_value() && !one.place.model.empty();
  });
  const std::vector<PlacedStatistic> alone(rest, statistics.end());
  statistics.erase(rest, statistics.end());
  AddSeedSummaries(statistics);
  statistics.insert(statistics.end(), alone.begin(), alone.end());
  TableBuilder table = StatisticsTable();
  for (const PlacedStatistic& one : statistics) {
    AddStatistic(one.place, one.name, one.row, table);
  }
  return table.Finish(/*whole_in_sql=*/true);
}

}  // namespace ropelab::experiments
