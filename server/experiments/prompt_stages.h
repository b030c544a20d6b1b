// The stages that find an experiment's prompts before the stage that measures on them: the sampling of the
// ids for `sampled` prompts, as many stages of text lengths as it takes for `corpus` prompts
// (corpus_stages.h), none for the others. Every kind that measures on prompts plans through here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/corpus_stages.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

struct FoundPrompts {
  StagePlan before;    // the next stage to run first; empty: the prompts are known, and the rest is filled
  int64_t stages = 0;  // that were needed before the prompts were known
  int64_t blocks = 0;  // per model and seed
  // Model by model and seed by seed as the spec names them, then block by block.
  std::vector<v1::PromptBlock> prompts;
  std::vector<CorpusChoice> choices;  // of `corpus` prompts: one per model and seed
  int64_t in_corpus = 0;              // documents

  const v1::PromptBlock& At(size_t model, size_t seed, size_t seeds, int64_t block) const {
    return prompts[(model * seeds + seed) * static_cast<size_t>(blocks) + static_cast<size_t>(block)];
  }
};

// What the stages before `stage` settle; `readings` may be read of those. Planning again gives the same.
// Errors: FollowCorpus'; INTERNAL when a stage did not give what it was asked for, or the spec is not
// resolved.
absl::StatusOr<FoundPrompts> FindPrompts(const v1::PromptSource& source, const v1::ExperimentSpec& spec,
                                         const Context& context, int64_t stage, StageReadings& readings);

}  // namespace ropelab::experiments
