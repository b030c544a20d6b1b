// What a frequency analysis measures for each model and seed, and in which order its tasks stand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"
#include "server/experiments/frequency_removals.h"
#include "server/experiments/head_set.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {

struct FrequencyGroup {
  const ModelFacts* model = nullptr;  // of the context
  size_t model_index = 0, seed_index = 0;
  std::string label, dtype;
  int64_t seed = 0;
  std::vector<NamedHead> heads;  // ascending by layer and head
  RemovalPlan removals;

  int64_t pairs() const { return model->config.head_dim() / 2; }
};

// The heat maps' rows, from 1 and ascending: the spec's, or one row for the whole analysis: min(100, N) where
// every offset is below 10 (kSmallOffsets) or there is none, else max(1, floor(5N/6)); N is the shortest
// prompt's length.
std::vector<int64_t> HeatRowsOf(const v1::FrequencyAnalysis& analysis, const PromptShape& shape,
                                const std::vector<NamedHead>& heads);

// Bytes of the heat maps of so many heads.
int64_t HeatBytes(int64_t pairs, const std::vector<int64_t>& rows, int64_t heads);

// What is wrong with these heads of one model; nullopt: nothing. For a list that a spec holds and for heads
// that a detection found alike: too many, offsets that the prompts do not reach, heat maps that are too
// large. The field of a found head's problem is `heads` itself.
std::optional<v1::FieldProblem> HeadsProblem(const v1::FrequencyAnalysis& analysis, const PromptShape& shape,
                                             const ModelFacts& model, const std::vector<NamedHead>& heads,
                                             const std::vector<int64_t>& rows);
// `heads`: of all models and seeds together, and one more for the union of each.
std::optional<v1::FieldProblem> CosineRowsProblem(const PromptShape& shape, int64_t heads);

// Model by model and seed by seed as the spec names them. FAILED_PRECONDITION, naming the field, for found
// heads that HeadsProblem or CosineRowsProblem refuses; INTERNAL as HeadsOf, and where the context does not
// hold the spec's models.
absl::StatusOr<std::vector<FrequencyGroup>> FrequencyGroupsOf(const v1::ExperimentSpec& spec,
                                                              const Context& context);
// Of all groups together.
std::vector<NamedHead> AllHeadsOf(const std::vector<FrequencyGroup>& groups);

enum class FrequencyPart { kProfile, kRemovals, kFits };
struct FrequencyTask {
  FrequencyPart part = FrequencyPart::kProfile;
  size_t group = 0;
  int64_t block = 0;  // of prompts
};
// Group by group: the blocks' frequency profiles, then, where pairs are removed, their slash scores. A group
// without heads has no task.
std::vector<FrequencyTask> ProfileTasks(const std::vector<FrequencyGroup>& groups, int64_t blocks);
// Group by group, block by block.
std::vector<FrequencyTask> FitTasks(const std::vector<FrequencyGroup>& groups, int64_t blocks);

}  // namespace ropelab::experiments
