#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/checkpoint_sweep.h"
#include "server/experiments/sweep_statistics.h"
#include "server/experiments/utility_tables.h"
#include "server/statistics/correlation.h"
#include "server/statistics/onset.h"

namespace ropelab::experiments {
namespace {

// The checkpoints' common dtype; empty where they have several.
std::string CommonDtype(const std::vector<SweepRun>& runs) {
  const bool common =
      std::all_of(runs.begin(), runs.end(), [&](const SweepRun& run) { return run.dtype == runs[0].dtype; });
  return common ? v1::Dtype::Value_Name(runs[0].dtype) : "";
}

// What is said of all checkpoints together: rows whose model is empty.
class Curves {
 public:
  Curves(const v1::CheckpointSweep& sweep, const std::vector<SweepRun>& runs, std::string numerics_class,
         std::vector<PlacedStatistic>& statistics)
      : sweep_(sweep), runs_(runs), statistics_(statistics) {
    place_.dtype = CommonDtype(runs);
    place_.numerics_class = std::move(numerics_class);
    for (const SweepRun& run : runs) {
      utilities_.push_back(run.utilities.OfModel());
    }
    AddSeries("mean_utility", utilities_);
  }

  void Add(size_t seed_index, uint64_t seed, v1::Metric::Value metric) {
    std::vector<double> counts;
    for (const SweepRun& run : runs_) {
      counts.push_back(static_cast<double>(
          LabelledHeads(run.seeds[seed_index], metric, sweep_.detection().threshold()).size()));
    }
    const std::string name = absl::StrCat("seed_", seed, ".", MetricName(metric), ".retrieval");
    AddSeries(name, counts);
    AddSeries(name + "_smoothed", statistics::RunningMedian(counts, sweep_.smoothing_window()));
    place_.detector = MetricName(metric);
    place_.threshold = sweep_.detection().threshold();
    place_.seed = static_cast<int64_t>(seed);
    AddPearson(counts);
    const statistics::Defined<statistics::Onset> smoothed =
        statistics::SmoothedOnset(counts, sweep_.smoothing_window());
    const statistics::Defined<statistics::Onset> paper = statistics::PaperOnset(counts);
    AddOnset("onset", sweep_.onset_detector() == v1::OnsetDetector::PAPER ? paper : smoothed);
    AddOnset("onset_smoothed", smoothed);
    AddOnset("onset_paper", paper);
  }

  Table FinishSeries() { return series_.Finish(/*whole_in_sql=*/true); }

 private:
  void AddSeries(const std::string& name, const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      series_.Text(place_.model).Text(place_.dtype).Text(place_.numerics_class).Text(name);
      series_.Real(CheckpointAxis(sweep_, i)).Real(values[i]);
    }
  }

  void AddPearson(const std::vector<double>& counts) {
    const statistics::Defined<double> r = statistics::Pearson(counts, utilities_);
    StatisticsRow row;
    row.value = r.maybe();
    row.n = static_cast<int64_t>(counts.size());
    row.because = r.because();
    statistics_.push_back({place_, "pearson", row});
  }

  void AddOnset(const std::string& name, const statistics::Defined<statistics::Onset>& onset) {
    StatisticsPlace place = place_;
    StatisticsRow row;
    row.n = static_cast<int64_t>(runs_.size());
    row.because = onset.because();
    if (onset.has_value()) {
      place.checkpoint = runs_[static_cast<size_t>(onset->index)].label;
      row.value = CheckpointAxis(sweep_, static_cast<size_t>(onset->index));
      row.low = onset->low;
      row.high = onset->high;
    }
    statistics_.push_back({place, name, row});
  }

  const v1::CheckpointSweep& sweep_;
  const std::vector<SweepRun>& runs_;
  std::vector<PlacedStatistic>& statistics_;
  TableBuilder series_ = SeriesTable();
  StatisticsPlace place_;
  std::vector<double> utilities_;
};

}  // namespace

absl::StatusOr<Results> CheckpointSweepExperiment::Reduce(const v1::ExperimentSpec& spec,
                                                          const Context& context,
                                                          StageReadings& readings) const {
  const v1::CheckpointSweep& sweep = spec.checkpoint_sweep();
  ROPELAB_ASSIGN_OR_RETURN(SweepReadings read, ReadRuns(sweep.detection(), {&spec, 1}, context, readings));
  std::vector<PlacedStatistic> statistics;
  HeadScoresTable scores(context.numerics_class);
  UtilitiesTable utilities(context.numerics_class);
  for (const SweepRun& run : read.runs) {
    AddRunStatistics(run, sweep.detection(), spec, context.numerics_class, run.label, statistics);
    utilities.Add(run.label, v1::Dtype::Value_Name(run.dtype), run.label, run.utilities);
    for (size_t seed = 0; seed < run.seeds.size(); ++seed) {
      scores.Add({run.label, run.dtype, run.label, spec.seeds(static_cast<int>(seed))}, run.seeds[seed],
                 sweep.detection().threshold());
    }
  }
  Curves curves(sweep, read.runs, context.numerics_class, statistics);
  for (int seed = 0; seed < spec.seeds_size(); ++seed) {
    // Copy heads are as many as argmax heads by definition: they have no curve of their own.
    for (const v1::Metric::Value metric : read.runs[0].seeds[static_cast<size_t>(seed)].metrics()) {
      if (!IsCopyMetric(metric)) {
        curves.Add(static_cast<size_t>(seed), spec.seeds(seed), metric);
      }
    }
  }
  Results results;
  results.tables.push_back(scores.Finish());
  results.tables.push_back(std::move(read.needle_samples));
  results.tables.push_back(curves.FinishSeries());
  results.tables.push_back(StatisticsOf(std::move(statistics)));
  results.tables.push_back(utilities.Finish());
  return results;
}

}  // namespace ropelab::experiments
