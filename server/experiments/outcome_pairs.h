// Two conditions on the same samples: how far their accuracies are apart. EXPERIMENTS.md section 9.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/experiments/outcome_levels.h"
#include "server/experiments/outcome_readings.h"
#include "server/experiments/table_builder.h"
#include "server/statistics/bootstrap.h"

namespace ropelab::experiments {

struct PairedComparison {
  double difference = 0;                    // accuracy of the first less that of the second
  double low = 0, high = 0;                 // its bootstrap interval, 95 %
  double p = 1;                             // McNemar's, exact, two-sided
  int64_t only_first = 0, only_second = 0;  // samples that are right under one alone
  int64_t samples = 0;
};

// The comparisons of one model and seed; what is asked for again is not drawn again. Not for several threads
// at once.
class OutcomePairs {
 public:
  // `group` must outlive it.
  explicit OutcomePairs(const OutcomeGroup& group) : group_(group) {}
  PairedComparison Of(const OutcomeCondition& first, const OutcomeCondition& second,
                      const OutcomeLevel& level);
  // At least 0.99 of the level's samples are right without any edit, and under every condition of the point
  // as many are: no edit can show there.
  bool AtCeiling(const OutcomePoint& point, const OutcomeLevel& level) const;

 private:
  statistics::Interval IntervalOf(const std::vector<int8_t>& differences);

  const OutcomeGroup& group_;
  std::map<size_t, statistics::SignBootstrap> draws_;      // by the number of samples
  std::map<std::vector<int8_t>, PairedComparison> known_;  // by the samples' differences
};

// Two lines that tables hold against each other: every condition against the model as it is; the lowest
// frequencies against the highest and against every draw of random dimensions; every control against what its
// heads stand for, the lowest frequencies or the knockout.
struct OutcomePair {
  const OutcomeCondition* first = nullptr;
  const OutcomeCondition* second = nullptr;
};
std::vector<OutcomePair> PairsOf(const OutcomeConditions& conditions);

// The table `comparisons`: every pair on all samples and on those of each context length.
TableBuilder ComparisonsTable();
void AddComparisonRows(const OutcomeGroup& group, const std::string& numerics_class, OutcomePairs& pairs,
                       TableBuilder& comparisons);

}  // namespace ropelab::experiments
