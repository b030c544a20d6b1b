// The readings of a low-rank experiment, summed: what its tables are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/corpus_stages.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/outcome_readings.h"

namespace ropelab::experiments {

// What was measured for one model and seed.
struct LowRankGroup {
  const ModelFacts* model = nullptr;  // of the context
  std::string label, dtype;
  int64_t seed = 0;
  LowRankConditions conditions;
  std::vector<double> nll;  // per measured condition, nats, over all prompts
  int64_t tokens = 0;       // that were predicted, the same under every condition
  int64_t prompts = 0;
  std::optional<CorpusChoice> choice;     // of prompts from a corpus
  int64_t in_corpus = 0;                  // documents
  std::optional<OutcomeAnswers> answers;  // where there are needles
  int64_t dropped = 0;                    // needles that do not fit every model

  // exp(sum of nll / tokens); none where that is not finite.
  std::optional<double> Perplexity(size_t measured) const;
};

// Sorted by (label, dtype, seed). Sums over prompts run in sample order. INTERNAL when the readings are not
// exactly those of the plan: of every sample every condition once, in order, with all but its first token
// predicted, and of every needle an answer. Errors: FindLowRankStages', LowRankConditionsOf's.
absl::StatusOr<std::vector<LowRankGroup>> ReadLosses(const v1::ExperimentSpec& spec, const Context& context,
                                                     StageReadings& readings);

}  // namespace ropelab::experiments
