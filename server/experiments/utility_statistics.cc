#include "server/experiments/utility_statistics.h"

#include <set>

namespace ropelab::experiments {
namespace {

using Named = std::pair<std::string, StatisticsRow>;

std::vector<statistics::LabelledHead> Label(const Utilities& utilities,
                                            const std::vector<NamedHead>& labelled) {
  std::set<std::pair<int64_t, int64_t>> places;
  for (const NamedHead& head : labelled) {
    places.insert({head.layer, head.head});
  }
  std::vector<statistics::LabelledHead> heads;
  for (int64_t layer = 0; layer < utilities.layers(); ++layer) {
    for (int64_t head = 0; head < utilities.heads(); ++head) {
      heads.push_back({layer, utilities.OfHead(layer, head), places.count({layer, head}) > 0});
    }
  }
  return heads;
}

StatisticsRow Undefined(std::string because, int64_t n) {
  StatisticsRow row;
  row.n = n;
  row.because = std::move(because);
  return row;
}

StatisticsRow Value(double value, int64_t n) {
  StatisticsRow row;
  row.value = value;
  row.n = n;
  return row;
}

StatisticsRow P(double p, int64_t n) {
  StatisticsRow row = Value(p, n);
  row.p = p;
  return row;
}

StatisticsRow RowOf(const statistics::Defined<double>& figure, int64_t n) {
  return figure.has_value() ? Value(*figure, n) : Undefined(figure.because(), n);
}

StatisticsRow POf(const statistics::Defined<double>& p, int64_t n) {
  return p.has_value() ? P(*p, n) : Undefined(p.because(), n);
}

void AddInterval(const statistics::Defined<statistics::Interval>& interval, StatisticsRow& row) {
  if (interval.has_value()) {
    row.low = interval->low;
    row.high = interval->high;
  }
}

void AddTest(const UtilityFigures& figures, std::vector<Named>& rows) {
  if (!figures.test.has_value()) {
    for (const char* name : {"layers_without_both", "T", "null_mean", "p_paper", "p_centred"}) {
      rows.push_back({name, Undefined(figures.test.because(), figures.heads)});
    }
    return;
  }
  const statistics::PermutationTest& test = *figures.test;
  rows.push_back({"layers_without_both", Value(static_cast<double>(test.layers_without_both), test.layers)});
  StatisticsRow difference = Value(test.difference, figures.heads);
  AddInterval(figures.difference, difference);
  rows.push_back({"T", difference});
  rows.push_back({"null_mean", Value(test.null_mean, figures.heads)});
  rows.push_back({"p_paper", POf(test.p_paper, test.permutations)});
  rows.push_back({"p_centred", POf(test.p_centred, test.permutations)});
}

}  // namespace

UtilityFigures TestUtilities(const Utilities& utilities, const std::vector<NamedHead>& labelled,
                             int64_t permutations, uint64_t seed) {
  const std::vector<statistics::LabelledHead> heads = Label(utilities, labelled);
  std::vector<double> of_labelled, of_rest;
  for (const statistics::LabelledHead& head : heads) {
    (head.labelled ? of_labelled : of_rest).push_back(head.value);
  }
  UtilityFigures figures;
  figures.labelled = static_cast<int64_t>(of_labelled.size());
  figures.heads = static_cast<int64_t>(heads.size());
  figures.test = statistics::ClusteredPermutationTest(heads, permutations, seed);
  figures.difference = statistics::BootstrapDifferenceOfMeans(heads, statistics::kResamples, seed);
  figures.cohens_d = statistics::CohensD(of_labelled, of_rest);
  figures.welch = statistics::Welch(of_labelled, of_rest);
  return figures;
}

UtilityCorrelation CorrelateUtilities(const Utilities& utilities, const HeadScoreMap& scores,
                                      v1::PartialCorrelation::Value chosen, uint64_t seed) {
  std::vector<statistics::LayeredPair> pairs;
  for (const auto& [place, score] : scores) {
    pairs.push_back({place.first, utilities.OfHead(place.first, place.second), score});
  }
  const auto order = chosen == v1::PartialCorrelation::RANK_FIRST ? statistics::PartialOrder::kRankFirst
                                                                  : statistics::PartialOrder::kDemeanFirst;
  UtilityCorrelation correlation;
  correlation.heads = static_cast<int64_t>(pairs.size());
  correlation.demean_first = statistics::PartialSpearman(pairs, statistics::PartialOrder::kDemeanFirst);
  correlation.rank_first = statistics::PartialSpearman(pairs, statistics::PartialOrder::kRankFirst);
  correlation.chosen = chosen;
  correlation.interval =
      statistics::BootstrapPartialSpearman(pairs, order, statistics::kLayerResamples, seed);
  return correlation;
}

void AddStatistic(const StatisticsPlace& place, const std::string& name, const StatisticsRow& row,
                  TableBuilder& statistics) {
  statistics.Text(place.model).Text(place.dtype).Text(place.numerics_class).Text(name);
  statistics.Text(place.checkpoint).Text(place.detector).Real(place.threshold).Integer(place.seed);
  statistics.Real(row.value).Real(row.low).Real(row.high).Real(row.p).Integer(row.n);
  statistics.Text(row.value.has_value() ? std::nullopt : std::optional<std::string>(row.because));
}

std::vector<Named> RowsOf(const UtilityFigures& figures) {
  std::vector<Named> rows;
  rows.push_back({"retrieval", Value(static_cast<double>(figures.labelled), figures.heads)});
  AddTest(figures, rows);
  rows.push_back({"cohens_d", RowOf(figures.cohens_d, figures.heads)});
  if (figures.welch.has_value()) {
    rows.push_back({"welch_t", Value(figures.welch->t, figures.heads)});
    rows.push_back({"welch_p", P(figures.welch->p, figures.heads)});
  } else {
    rows.push_back({"welch_t", Undefined(figures.welch.because(), figures.heads)});
    rows.push_back({"welch_p", Undefined(figures.welch.because(), figures.heads)});
  }
  return rows;
}

std::vector<Named> RowsOf(const UtilityCorrelation& correlation) {
  StatisticsRow demean = RowOf(correlation.demean_first, correlation.heads);
  StatisticsRow rank = RowOf(correlation.rank_first, correlation.heads);
  StatisticsRow& chosen = correlation.chosen == v1::PartialCorrelation::RANK_FIRST ? rank : demean;
  if (chosen.value.has_value()) {
    AddInterval(correlation.interval, chosen);
  }
  return {{"partial_spearman", demean}, {"partial_spearman_rank_first", rank}};
}

std::vector<Named> UndefinedCorrelation(const std::string& because) {
  return {{"partial_spearman", Undefined(because, 0)},
          {"partial_spearman_rank_first", Undefined(because, 0)}};
}

}  // namespace ropelab::experiments
