// What sections 7 and 8 of EXPERIMENTS.md say of one run of a sweep: how many heads are retrieval heads at
// each threshold under each detector, and whether their query rows differ from those of the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/experiments/sweep_runs.h"
#include "server/experiments/utility_summary.h"

namespace ropelab::experiments {

// The heads that `metric` labels at `threshold` on all samples, by layer and head.
std::vector<NamedHead> LabelledHeads(const DetectionScores& scores, v1::Metric::Value metric,
                                     double threshold);

// For the table `statistics`: mean_utility (n: heads); per seed and measured metric (`detector`) those of
// UtilityFigures at each of kReportedThresholds and the detection's own, and those of UtilityCorrelation,
// which knows no threshold.
void AddRunStatistics(const SweepRun& run, const v1::RetrievalDetection& detection,
                      const v1::ExperimentSpec& spec, const std::string& numerics_class,
                      const std::optional<std::string>& checkpoint, std::vector<PlacedStatistic>& statistics);

// The table `statistics` of what was added, with the means over several seeds (utility_summary.h) of what has
// a model and a seed.
Table StatisticsOf(std::vector<PlacedStatistic> statistics);

}  // namespace ropelab::experiments
