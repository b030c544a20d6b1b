// low_rank: what query and key projections of a low rank cost in perplexity, on named heads and on as many
// others. The slash paper, section 7; docs/experiments/low_rank.md.
//
// Stages: those that find the prompts (prompt_stages.h) and the needles (needles.h), then one that measures:
// model by model, seed by seed, block by block a task with all conditions (LowRankConditions), and behind
// these, where there are needles, model by model and seed by seed the tasks of OutcomeTasksOf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/experiments/experiment.h"
#include "server/experiments/head_set.h"
#include "server/experiments/outcome_controls.h"

namespace ropelab::experiments {

class LowRankExperiment : public Experiment {
 public:
  void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const override;
  absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec, const Context& context,
                                                int64_t stage, StageReadings& readings) const override;
  absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                 StageReadings& readings) const override;
  v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const override;
};

inline constexpr int64_t kMostConditions = 4096;                  // of one model and seed
inline constexpr int64_t kMostConditionBytes = int64_t{1} << 20;  // encoded: every task carries them

// 1 for the model as it is and, per rank, 1 for the named heads and one per draw.
int64_t MostConditions(const v1::LowRank& low_rank);

// Heads that are edited together.
struct LowRankSet {
  std::string control;          // empty: the heads that the spec names
  std::optional<int64_t> draw;  // of a control, from 0
  std::vector<NamedHead> heads;
};

// What is measured of one model and seed.
struct LowRankConditions {
  std::vector<LowRankSet> sets;  // the named heads, then each control's draws; none where no head was found
  int64_t candidates = 0;        // heads that a control may be drawn from
  // Each distinct condition once, the model as it is first. Draws that found the same heads share theirs.
  std::vector<v1::Condition> measured;
  std::vector<size_t> index;  // into `measured`, [rank, set]

  size_t At(size_t rank, size_t set) const { return index[rank * sets.size() + set]; }
};
// A draw without any head (none is left) is no set. FAILED_PRECONDITION: a layer has too few heads for a
// matched control that must be whole, or the conditions take more than kMostConditionBytes; errors of
// HeadsOf.
absl::StatusOr<LowRankConditions> LowRankConditionsOf(const v1::ExperimentSpec& spec, const Context& context,
                                                      size_t model, uint64_t seed);

}  // namespace ropelab::experiments
