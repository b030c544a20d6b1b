#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/experiments/frequency_tables.h"
#include "server/statistics/cosine_sums.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kSeriesWholeInSql = 100000;  // rows
constexpr int64_t kNearLags = 64;              // what SQL holds of longer ones

class CosineWriter {
 public:
  CosineWriter(const FrequencyOutcome& outcome, int64_t tokens, TableBuilder& statistics)
      : outcome_(outcome), tokens_(tokens), statistics_(statistics), series_(SeriesTable()) {
    for (const FrequencyGroup& group : outcome.groups) {
      several_seeds_ = several_seeds_ || group.seed != outcome.groups.front().seed;
    }
  }

  void Add(const FrequencyGroup& group, const FrequencyMeasures& measures) {
    std::vector<bool> united(static_cast<size_t>(group.pairs()));
    for (size_t h = 0; h < group.heads.size(); ++h) {
      const HeadMeasures& head = measures.heads[h];
      const std::vector<bool> active = ActivePairs(outcome_.analysis.active_average(), head);
      for (size_t pair = 0; pair < active.size(); ++pair) {
        united[pair] = united[pair] || active[pair];
      }
      AddSum(group, FrequencyHeadName(group.heads[h]), ThetaOf(head, active), "its largest average");
    }
    // All heads of a model turn by the same frequencies.
    const std::vector<double> theta =
        group.heads.empty() ? std::vector<double>() : ThetaOf(measures.heads.front(), united);
    AddSum(group, "union", theta, group.heads.empty() ? "" : "every head's largest average");
  }

  Table Finish() { return series_.Finish(series_.rows() <= kSeriesWholeInSql); }

 private:
  static std::vector<double> ThetaOf(const HeadMeasures& head, const std::vector<bool>& pairs) {
    std::vector<double> theta;
    for (size_t pair = 0; pair < pairs.size(); ++pair) {
      if (pairs[pair]) {
        theta.push_back(head.theta[pair]);
      }
    }
    return theta;
  }

  // `largest`: what is not above 0 where no pair is active; empty: there is no head.
  void AddSum(const FrequencyGroup& group, const std::string& of, const std::vector<double>& theta,
              const std::string& largest) {
    const int64_t active = static_cast<int64_t>(theta.size());
    AddFrequencyStatistic(outcome_, group,
                          {absl::StrCat("active_pairs.", of), static_cast<double>(active), group.pairs()},
                          statistics_);
    if (theta.empty()) {
      AddAssumption(group, of, std::nullopt, 0,
                    largest.empty() ? "the set of heads is empty"
                                    : absl::StrCat("no pair is active: ", largest, " is not above 0"));
      return;
    }
    const std::vector<double> sums = statistics::CosineSums(theta, tokens_);
    const std::string seed = several_seeds_ ? absl::StrCat(".seed", group.seed) : "";
    const std::string name = absl::StrCat("cosine_sum.", of, seed);
    for (size_t lag = 0; lag < sums.size(); ++lag) {
      LeadFrequencyRow(outcome_, group, series_).Text(name);
      series_.Real(static_cast<double>(lag)).Real(sums[lag]);
      if (static_cast<int64_t>(lag) < kNearLags) {
        series_.KeepLastRowInSql();
      }
    }
    AddAssumption(group, of, statistics::FitPulse(sums), active, "C1 is 0: every active pair stands still");
  }

  void AddAssumption(const FrequencyGroup& group, const std::string& of,
                     const std::optional<statistics::PulseFit>& fit, int64_t n, const std::string& because) {
    using Value = std::optional<double>;
    const auto add = [&](const char* name, Value value, Value threshold = std::nullopt) {
      AddFrequencyStatistic(outcome_, group, {absl::StrCat(name, ".", of), value, n, because, threshold},
                            statistics_);
    };
    const bool pulse = fit.has_value() && fit->c1 > 0;
    const double tokens = static_cast<double>(tokens_);
    add("c1", fit.has_value() ? Value(fit->c1) : std::nullopt);
    add("c2", fit.has_value() ? Value(fit->c2) : std::nullopt);
    add("epsilon", fit.has_value() ? Value(fit->epsilon) : std::nullopt);
    add("epsilon_over_c1", pulse ? FiniteOrNull(fit->epsilon / fit->c1) : std::nullopt);
    add("l_min", pulse ? FiniteOrNull(fit->epsilon * tokens / fit->c1) : std::nullopt);
    if (outcome_.analysis.has_assumption_length()) {
      const double length = outcome_.analysis.assumption_length();
      const bool holds = pulse && fit->epsilon <= length * fit->c1 / tokens;
      add("assumption_5_1", fit.has_value() ? Value(holds ? 1 : 0) : std::nullopt, length);
    }
  }

  const FrequencyOutcome& outcome_;
  const int64_t tokens_;
  TableBuilder& statistics_;
  TableBuilder series_;
  bool several_seeds_ = false;
};

}  // namespace

Table CosineSumsTable(const FrequencyOutcome& outcome, int64_t tokens, TableBuilder& statistics) {
  CosineWriter writer(outcome, tokens, statistics);
  for (size_t g = 0; g < outcome.groups.size(); ++g) {
    writer.Add(outcome.groups[g], outcome.measures[g]);
  }
  return writer.Finish();
}

}  // namespace ropelab::experiments
