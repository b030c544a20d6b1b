// frequency_analysis: which RoPE frequencies carry the slash of named heads. The slash paper, sections 4.4
// and 5.2; EXPERIMENTS.md section 4; docs/experiments/frequency_analysis.md.
//
// Stages: those that find the prompts (prompt_stages.h), a profile stage (frequency profiles and slash scores
// under removals), and a fit stage whose tasks carry the mean queries and keys of the one before. Without a
// head there is no stage at all.
#pragma once

#include <cstdint>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

class FrequencyAnalysisExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

inline constexpr int64_t kFrequencySkipFirst = 4;    // of means at an offset: the default of slash_detection
inline constexpr int64_t kMostFrequencyHeads = 512;  // of a model and seed; what one task takes
// The longest row, from 1: one pair of it fits a reading of 1 MiB.
inline constexpr int64_t kLongestHeatRow = 130000;
inline constexpr int64_t kMostHeatBytes = int64_t{512} << 20;  // of a model and seed
inline constexpr int64_t kMostCosineRows = int64_t{1} << 22;   // of the table `series`
inline constexpr int64_t kMostRemovals = 1024;                 // of a model
inline constexpr double kActiveShare = 0.1;                    // of the largest average
inline constexpr int64_t kMostFrequencyTasks = int64_t{1000000};

}  // namespace ropelab::experiments
