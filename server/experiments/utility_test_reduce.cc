#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/model_names.h"
#include "server/experiments/utilities.h"
#include "server/experiments/utility_labels.h"
#include "server/experiments/utility_statistics.h"
#include "server/experiments/utility_summary.h"
#include "server/experiments/utility_tables.h"
#include "server/experiments/utility_test.h"

namespace ropelab::experiments {
namespace {

// What the tests of one model and seed read.
struct OneSet {
  const Utilities& utilities;
  const ModelFacts& model;
  StatisticsPlace place;  // without detector and threshold
};

absl::Status AddTests(const v1::UtilityTest& test, const std::vector<Labelling>& labellings,
                      const Context& context, const OneSet& set, std::vector<PlacedStatistic>& all) {
  const int64_t seed = *set.place.seed;
  for (const Labelling& labelling : labellings) {
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<NamedHead> heads,
                             HeadsOf(labelling.heads, context, set.place.model, seed));
    StatisticsPlace place = set.place;
    place.detector = labelling.detector;
    place.threshold = labelling.threshold;
    const UtilityFigures figures =
        TestUtilities(set.utilities, heads, test.permutations(), static_cast<uint64_t>(seed));
    for (auto& [name, row] : RowsOf(figures)) {
      all.push_back({place, name, row});
    }
  }
  for (const std::string& detector : DetectorsOf(labellings)) {
    ROPELAB_ASSIGN_OR_RETURN(const statistics::Defined<HeadScoreMap> scores,
                             HeadScoresOf(test, detector, context, set.model, set.place.model, seed));
    StatisticsPlace place = set.place;
    place.detector = detector;
    const auto rows = scores.has_value()
                          ? RowsOf(CorrelateUtilities(set.utilities, *scores, test.correlation(),
                                                      static_cast<uint64_t>(seed)))
                          : UndefinedCorrelation(scores.because());
    for (const auto& [name, row] : rows) {
      all.push_back({place, name, row});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Results> UtilityTestExperiment::Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                                      StageReadings& readings) const {
  const v1::UtilityTest& test = spec.utility_test();
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<Utilities> utilities, ReadUtilities(context, 1, readings));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<Labelling> labellings, LabellingsOf(test, context));
  UtilitiesTable table(context.numerics_class);
  TableBuilder series = SeriesTable(), statistics = StatisticsTable();
  std::vector<PlacedStatistic> all;
  for (size_t m = 0; m < context.models.size(); ++m) {
    const ModelFacts& model = context.models[m];
    const std::string& label = spec.models(static_cast<int>(m));
    const std::string dtype = v1::Dtype::Value_Name(DtypeOf(spec, model));
    table.Add(label, dtype, std::nullopt, utilities[m]);
    AddMeanPerDim(label, dtype, context.numerics_class, utilities[m], series);
    for (const uint64_t seed : spec.seeds()) {
      OneSet set = {utilities[m], model, {label, dtype, context.numerics_class}};
      set.place.seed = static_cast<int64_t>(seed);
      ROPELAB_RETURN_IF_ERROR(AddTests(test, labellings, context, set, all));
    }
  }
  AddSeedSummaries(all);
  AddFalseDiscovery(all);
  for (const PlacedStatistic& one : all) {
    AddStatistic(one.place, one.name, one.row, statistics);
  }
  Results results;
  results.tables.push_back(table.Finish());
  results.tables.push_back(series.Finish(true));
  results.tables.push_back(statistics.Finish(true));
  return results;
}

}  // namespace ropelab::experiments
