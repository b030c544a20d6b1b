// The results of a frequency analysis. docs/experiments/frequency_analysis.md says what each row is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/experiments/frequency_groups.h"
#include "server/experiments/frequency_readings.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {

// What every table is made of; all of it outlives them.
struct FrequencyOutcome {
  const v1::FrequencyAnalysis& analysis;
  const std::vector<FrequencyGroup>& groups;
  const std::vector<FrequencyMeasures>& measures;  // one per group
  const std::string& numerics_class;
};

// "L0H3"
std::string FrequencyHeadName(const NamedHead& head);
// Of one model and seed; begins a row.
TableBuilder& LeadFrequencyRow(const FrequencyOutcome& outcome, const FrequencyGroup& group,
                               TableBuilder& table);
// A finite number, else null.
std::optional<double> FiniteOrNull(double value);

struct FrequencyStatistic {
  std::string name;
  std::optional<double> value;
  int64_t n = 0;
  std::string because = {};  // read where `value` is empty
  std::optional<double> threshold = std::nullopt;
};
void AddFrequencyStatistic(const FrequencyOutcome& outcome, const FrequencyGroup& group,
                           const FrequencyStatistic& statistic, TableBuilder& statistics);

// Per pair, whether its average, as the analysis chooses it, is above a tenth of the head's largest; none
// where that is not above 0.
std::vector<bool> ActivePairs(v1::ActiveAverage::Value average, const HeadMeasures& head);

Table FrequenciesTable(const FrequencyOutcome& outcome);
Table FitsTable(const FrequencyOutcome& outcome);
// removal_ratios; boxes of each band's ratios go into `statistics`. No row where nothing is removed.
Table RemovalsTable(const FrequencyOutcome& outcome, TableBuilder& statistics);
// series: cosine_sum.L0H3 and cosine_sum.union over lags 0 to `tokens`; Assumption 5.1's figures go into
// `statistics`. Of more than 100 000 rows SQL holds lags below 64.
Table CosineSumsTable(const FrequencyOutcome& outcome, int64_t tokens, TableBuilder& statistics);

// The file of a group's heat maps: float64 tensors L0H3.row100 [pairs, row], rows named from 1. The same
// means give the same bytes.
std::string HeatMapsFile(const FrequencyGroup& group, const FrequencyMeasures& measures);
// "heat_maps.safetensors", or with several groups "heat_maps.MODEL.SEED.safetensors".
std::string HeatMapsFileName(const FrequencyGroup& group, size_t groups);

}  // namespace ropelab::experiments
