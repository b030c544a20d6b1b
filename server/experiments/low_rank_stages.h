// The stages of low_rank before the one that measures, and the order of its tasks on needles.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"
#include "server/experiments/needles.h"
#include "server/experiments/outcome_stages.h"
#include "server/experiments/prompt_stages.h"

namespace ropelab::experiments {

struct LowRankStages {
  StagePlan before;    // the next stage to run first; empty: all is known, and the rest is filled
  int64_t stages = 0;  // before the one that measures
  FoundPrompts prompts;
  std::optional<FoundNeedles> needles;
};
// What the stages before `stage` settle. Errors: FindPrompts' and FindNeedles'.
absl::StatusOr<LowRankStages> FindLowRankStages(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings);

// The tasks on needles, in plan order; they stand behind those on prompts, of which there are
// `conditions.size()` times found.prompts.blocks. `conditions`: how many are measured of each model and seed,
// in plan order. None without needles.
std::vector<OutcomeTask> LowRankNeedleTasks(const LowRankStages& found, const std::vector<size_t>& conditions,
                                            size_t seeds);

}  // namespace ropelab::experiments
