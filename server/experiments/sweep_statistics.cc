#include "server/experiments/sweep_statistics.h"

#include <iterator>
#include <set>
#include <utility>

namespace ropelab::experiments {
namespace {

// Ascending, each once.
std::set<double> ThresholdsOf(const v1::RetrievalDetection& detection) {
  std::set<double> thresholds(std::begin(kReportedThresholds), std::end(kReportedThresholds));
  thresholds.insert(detection.threshold());
  return thresholds;
}

HeadScoreMap ScoresOf(const DetectionScores& scores, v1::Metric::Value metric) {
  HeadScoreMap map;
  for (const HeadFigures& head : scores.Figures(metric)) {
    map[{head.layer, head.head}] = head.score;
  }
  return map;
}

void AddRows(const StatisticsPlace& place, const std::vector<std::pair<std::string, StatisticsRow>>& rows,
             TableBuilder& statistics) {
  for (const auto& [name, row] : rows) {
    AddStatistic(place, name, row, statistics);
  }
}

// Of one seed and metric.
void AddTests(const SweepRun& run, size_t seed_index, uint64_t seed, v1::Metric::Value metric,
              const v1::RetrievalDetection& detection, StatisticsPlace place, TableBuilder& statistics) {
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
                      const std::optional<std::string>& checkpoint, TableBuilder& statistics) {
  StatisticsPlace place;
  place.model = run.label;
  place.dtype = v1::Dtype::Value_Name(run.dtype);
  place.numerics_class = numerics_class;
  place.checkpoint = checkpoint;
  StatisticsRow mean;
  mean.value = run.utilities.OfModel();
  mean.n = run.utilities.layers() * run.utilities.heads();
  AddStatistic(place, "mean_utility", mean, statistics);
  for (size_t seed = 0; seed < run.seeds.size(); ++seed) {
    for (const v1::Metric::Value metric : run.seeds[seed].metrics()) {
      AddTests(run, seed, spec.seeds(static_cast<int>(seed)), metric, detection, place, statistics);
    }
  }
}

}  // namespace ropelab::experiments
