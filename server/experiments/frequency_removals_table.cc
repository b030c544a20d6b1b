#include <vector>

#include "absl/strings/str_cat.h"
#include "server/experiments/frequency_tables.h"
#include "server/experiments/slash_detection.h"
#include "server/statistics/quantiles.h"

namespace ropelab::experiments {
namespace {

TableBuilder RatiosTable() {
  return TableBuilder("removal_ratios", WithLeadingColumns({{"seed", v1::Column::INTEGER, true},
                                                            {"layer", v1::Column::INTEGER, true},
                                                            {"head", v1::Column::INTEGER, true},
                                                            {"offset", v1::Column::INTEGER, true},
                                                            {"band", v1::Column::TEXT, true},
                                                            {"removed", v1::Column::TEXT, true},
                                                            {"score", v1::Column::REAL, false},
                                                            {"score_removed", v1::Column::REAL, false},
                                                            {"ratio", v1::Column::REAL, false}}));
}

// A head's scores under one removal; empty where its offset lies beyond the layer's sliding window.
struct Scores {
  std::optional<double> score, removed, ratio;
};
Scores ScoresOf(const FrequencyGroup& group, const NamedHead& head, const HeadMeasures& measures,
                const NamedRemoval& removal) {
  const int64_t window = WindowOf(*group.model, head.layer);
  if (window != 0 && head.offset.value_or(0) >= window) {
    return {};
  }
  Scores scores;
  scores.score = measures.scores.front().mean;
  scores.removed = measures.scores[removal.list].mean;
  scores.ratio = FiniteOrNull(*scores.removed / *scores.score);
  return scores;
}

void AddBox(const FrequencyOutcome& outcome, const FrequencyGroup& group, const std::string& band,
            const std::vector<double>& ratios, const std::string& because, TableBuilder& statistics) {
  const std::string name = absl::StrCat("removal_ratio_", band);
  const int64_t n = static_cast<int64_t>(ratios.size());
  const auto add = [&](const char* what, std::optional<double> value) {
    AddFrequencyStatistic(outcome, group, {absl::StrCat(name, what), value, n, because}, statistics);
  };
  if (ratios.empty()) {
    for (const char* what : {"_minimum", "_q1", "_median", "_q3", "_maximum", "_outliers"}) {
      add(what, std::nullopt);
    }
    return;
  }
  const statistics::FiveNumbers numbers = statistics::FiveNumbersOf(ratios);
  int64_t outliers = 0;
  for (const double ratio : ratios) {
    outliers += numbers.IsOutlier(ratio) ? 1 : 0;
  }
  add("_minimum", numbers.minimum);
  add("_q1", numbers.q1);
  add("_median", numbers.median);
  add("_q3", numbers.q3);
  add("_maximum", numbers.maximum);
  add("_outliers", static_cast<double>(outliers));
}

void AddBands(const FrequencyOutcome& outcome, size_t g, TableBuilder& statistics) {
  const FrequencyGroup& group = outcome.groups[g];
  for (const RemovalPlan::BandCount& count : group.removals.bands) {
    std::vector<double> ratios;
    for (const NamedRemoval& removal : group.removals.removals) {
      for (size_t h = 0; removal.band == count.band.name && h < group.heads.size(); ++h) {
        const Scores scores = ScoresOf(group, group.heads[h], outcome.measures[g].heads[h], removal);
        if (scores.ratio.has_value()) {
          ratios.push_back(*scores.ratio);
        }
      }
    }
    std::string because = "no head has a ratio: each score is 0, or its offset is beyond its sliding window";
    if (group.heads.empty()) {
      because = "the set of heads is empty";
    } else if (count.removed == 0) {
      because = absl::StrCat("the band is empty: a head has ", group.pairs(), " pairs");
    }
    AddBox(outcome, group, count.band.name, ratios, because, statistics);
    AddFrequencyStatistic(outcome, group,
                          {absl::StrCat("removed_pairs_", count.band.name),
                           static_cast<double>(count.removed), count.band.size()},
                          statistics);
  }
}

}  // namespace

Table RemovalsTable(const FrequencyOutcome& outcome, TableBuilder& statistics) {
  TableBuilder table = RatiosTable();
  for (size_t g = 0; g < outcome.groups.size(); ++g) {
    const FrequencyGroup& group = outcome.groups[g];
    for (size_t h = 0; h < group.heads.size(); ++h) {
      for (const NamedRemoval& removal : group.removals.removals) {
        const Scores scores = ScoresOf(group, group.heads[h], outcome.measures[g].heads[h], removal);
        LeadFrequencyRow(outcome, group, table).Integer(group.seed).Integer(group.heads[h].layer);
        table.Integer(group.heads[h].head).Integer(group.heads[h].offset).Text(removal.band);
        table.Text(RemovedText(removal.pairs)).Real(scores.score).Real(scores.removed).Real(scores.ratio);
      }
    }
    AddBands(outcome, g, statistics);
  }
  return table.Finish(true);
}

}  // namespace ropelab::experiments
