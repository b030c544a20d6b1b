#include "server/experiments/frequency_tables.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/experiments/frequency_analysis.h"

namespace ropelab::experiments {
namespace {

using Value = std::optional<double>;

std::vector<ColumnShape> HeadColumns(std::vector<ColumnShape> columns) {
  columns.insert(columns.begin(), {{"seed", v1::Column::INTEGER, true},
                                   {"layer", v1::Column::INTEGER, true},
                                   {"head", v1::Column::INTEGER, true}});
  return WithLeadingColumns(std::move(columns));
}

// The pair's entry of a [pairs, 2] vector.
struct Arrow {
  double length = 0, angle = 0;
};
Arrow ArrowOf(const std::vector<double>& vector, size_t pair) {
  const double lower = vector[2 * pair], upper = vector[2 * pair + 1];
  return {std::hypot(lower, upper), std::atan2(upper, lower)};
}

}  // namespace

std::string FrequencyHeadName(const NamedHead& head) {
  return absl::StrCat("L", head.layer, "H", head.head);
}

TableBuilder& LeadFrequencyRow(const FrequencyOutcome& outcome, const FrequencyGroup& group,
                               TableBuilder& table) {
  return table.Text(group.label).Text(group.dtype).Text(outcome.numerics_class);
}

std::optional<double> FiniteOrNull(double value) {
  return std::isfinite(value) ? Value(value) : std::nullopt;
}

void AddFrequencyStatistic(const FrequencyOutcome& outcome, const FrequencyGroup& group,
                           const FrequencyStatistic& statistic, TableBuilder& statistics) {
  LeadFrequencyRow(outcome, group, statistics).Text(statistic.name).Text(std::nullopt).Text(std::nullopt);
  statistics.Real(statistic.threshold).Integer(group.seed).Real(statistic.value);
  statistics.Real(std::nullopt).Real(std::nullopt).Real(std::nullopt).Integer(statistic.n);
  statistics.Text(statistic.value.has_value() ? std::nullopt : std::optional<std::string>(statistic.because));
}

std::vector<bool> ActivePairs(v1::ActiveAverage::Value average, const HeadMeasures& head) {
  const std::vector<double>& averages = average == v1::ActiveAverage::AT_LAG ? head.inp_at_lag
                                        : average == v1::ActiveAverage::ABS  ? head.mean_abs_inp
                                                                             : head.mean_inp;
  std::vector<bool> active(averages.size());
  const double largest = *std::max_element(averages.begin(), averages.end());
  for (size_t pair = 0; largest > 0 && pair < averages.size(); ++pair) {
    active[pair] = averages[pair] > kActiveShare * largest;
  }
  return active;
}

Table FrequenciesTable(const FrequencyOutcome& outcome) {
  TableBuilder table("frequencies", HeadColumns({{"pair", v1::Column::INTEGER, true},
                                                 {"theta", v1::Column::REAL, false},
                                                 {"amplitude", v1::Column::REAL, false},
                                                 {"phase", v1::Column::REAL, false},
                                                 {"mean_inp", v1::Column::REAL, false},
                                                 {"mean_abs_inp", v1::Column::REAL, false},
                                                 {"inp_at_lag", v1::Column::REAL, false},
                                                 {"std_inp", v1::Column::REAL, false},
                                                 {"active", v1::Column::BOOLEAN, false}}));
  for (size_t g = 0; g < outcome.groups.size(); ++g) {
    const FrequencyGroup& group = outcome.groups[g];
    for (size_t h = 0; h < group.heads.size(); ++h) {
      const HeadMeasures& head = outcome.measures[g].heads[h];
      const std::vector<bool> active = ActivePairs(outcome.analysis.active_average(), head);
      const double squared_factor = head.attention_factor * head.attention_factor;
      for (size_t pair = 0; pair < head.theta.size(); ++pair) {
        const Arrow query = ArrowOf(head.query, pair), key = ArrowOf(head.key, pair);
        LeadFrequencyRow(outcome, group, table).Integer(group.seed);
        table.Integer(group.heads[h].layer).Integer(group.heads[h].head);
        table.Integer(static_cast<int64_t>(pair) + 1).Real(head.theta[pair]);
        table.Real(FiniteOrNull(query.length * key.length * squared_factor)).Real(query.angle - key.angle);
        table.Real(head.mean_inp[pair]).Real(head.mean_abs_inp[pair]);
        table.Real(head.inp_at_lag.empty() ? std::nullopt : Value(head.inp_at_lag[pair]));
        table.Real(head.heat.begin()->second.std[pair]).Boolean(active[pair]);
      }
    }
  }
  return table.Finish(true);
}

Table FitsTable(const FrequencyOutcome& outcome) {
  TableBuilder table("fits", HeadColumns({{"offset", v1::Column::INTEGER, false},
                                          {"r2", v1::Column::REAL, false},
                                          {"r2_centred", v1::Column::REAL, false},
                                          {"eta2", v1::Column::REAL, false},
                                          {"prompts", v1::Column::INTEGER, false}}));
  for (size_t g = 0; g < outcome.groups.size(); ++g) {
    const FrequencyGroup& group = outcome.groups[g];
    for (size_t h = 0; h < group.heads.size(); ++h) {
      const HeadMeasures& head = outcome.measures[g].heads[h];
      LeadFrequencyRow(outcome, group, table).Integer(group.seed);
      table.Integer(group.heads[h].layer).Integer(group.heads[h].head).Integer(group.heads[h].offset);
      table.Real(FiniteOrNull(head.r2))
          .Real(FiniteOrNull(head.r2_centred))
          .Real(FiniteOrNull(head.eta2))
          .Integer(head.fits);
    }
  }
  return table.Finish(true);
}

}  // namespace ropelab::experiments
