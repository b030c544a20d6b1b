// Section 8's test on one set of labelled heads: do they have larger (or smaller) query rows than the rest?
// What every kind that makes it writes into the table `statistics`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/experiments/head_set.h"
#include "server/experiments/table_builder.h"
#include "server/experiments/utilities.h"
#include "server/statistics/bootstrap.h"
#include "server/statistics/correlation.h"
#include "server/statistics/defined.h"
#include "server/statistics/effect.h"
#include "server/statistics/permutation.h"

namespace ropelab::experiments {

// What the tests of one experiment may take: rows of `utilities`, and labels that are dealt out over all
// permutations, some twenty minutes of one core.
inline constexpr int64_t kMostUtilityRows = int64_t{1} << 24;
inline constexpr double kMostLabels = 1e11;

// By (layer, head); heads without a score are left out of correlations.
using HeadScoreMap = std::map<std::pair<int64_t, int64_t>, double>;

struct UtilityFigures {
  int64_t labelled = 0, heads = 0;
  statistics::Defined<statistics::PermutationTest> test = statistics::Undefined{};
  statistics::Defined<statistics::Interval> difference = statistics::Undefined{};  // of T, over layers
  statistics::Defined<double> cohens_d = statistics::Undefined{};
  statistics::Defined<statistics::WelchTest> welch = statistics::Undefined{};
};
// Head utilities of `labelled` against those of all other heads. `labelled` lies within the model.
UtilityFigures TestUtilities(const Utilities& utilities, const std::vector<NamedHead>& labelled,
                             int64_t permutations, uint64_t seed);

// The correlation of head utility and head score within layers. It depends on no labels.
struct UtilityCorrelation {
  int64_t heads = 0;  // that have a score
  statistics::Defined<double> demean_first = statistics::Undefined{}, rank_first = statistics::Undefined{};
  v1::PartialCorrelation::Value chosen = v1::PartialCorrelation::DEMEAN_FIRST;
  statistics::Defined<statistics::Interval> interval = statistics::Undefined{};  // of the chosen one
};
UtilityCorrelation CorrelateUtilities(const Utilities& utilities, const HeadScoreMap& scores,
                                      v1::PartialCorrelation::Value chosen, uint64_t seed);

// The key columns of rows of `statistics` beside their name; what is nullopt is empty.
struct StatisticsPlace {
  std::string model, dtype, numerics_class;
  std::optional<std::string> checkpoint = {}, detector = {};
  std::optional<double> threshold = {};
  std::optional<int64_t> seed = {};
};
struct StatisticsRow {
  std::optional<double> value = {}, low = {}, high = {}, p = {};
  std::optional<int64_t> n = {};
  std::string because = {};  // where there is no value
};
void AddStatistic(const StatisticsPlace& place, const std::string& name, const StatisticsRow& row,
                  TableBuilder& statistics);

// (name, row) of retrieval, layers_without_both, T (low and high: a percentile interval over layers),
// null_mean, p_paper, p_centred, cohens_d, welch_t, welch_p. n: heads; of layers_without_both layers, of the
// permutation's p the permutations.
std::vector<std::pair<std::string, StatisticsRow>> RowsOf(const UtilityFigures& figures);
// partial_spearman and partial_spearman_rank_first; the chosen one has an interval. n: heads with a score.
std::vector<std::pair<std::string, StatisticsRow>> RowsOf(const UtilityCorrelation& correlation);
// The same two rows where heads have no scores.
std::vector<std::pair<std::string, StatisticsRow>> UndefinedCorrelation(const std::string& because);

}  // namespace ropelab::experiments
