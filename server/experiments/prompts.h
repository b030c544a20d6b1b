// Prompt sources: their rules, and the aligned blocks that tasks take their prompts in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// Samples of one task: [8k, 8k + 8) whatever the total, so that the whole blocks of a small run are those of
// a larger one.
inline constexpr int64_t kBlockSamples = 8;

// Writes the defaults of `source` and adds what is wrong with it; paths start with `path`. Reads the spec's
// seeds. Models may be fewer than the spec names (those that were found).
void ResolvePrompts(v1::PromptSource& source, const std::string& path, const v1::ExperimentSpec& spec,
                    const Facts& facts, Problems& problems);

// Of needle prompts, whose lengths a tokenizer decides, `longest` is the longest context length and
// `shortest` half of the shortest one: a worker refuses a needle prompt that is shorter than half its context
// length.
struct PromptShape {
  int64_t count = 0;
  int64_t shortest = 0, longest = 0;  // tokens, BOS included
};
// nullopt when the source does not tell (missing, not built, or refused).
std::optional<PromptShape> ShapeOf(const v1::PromptSource& source);
// Tokens of prompt `sample`; the most it may have where the source does not know.
int64_t TokensOf(const v1::PromptSource& source, int64_t sample);
// Whether it does: false for needle prompts.
bool KnowsTokens(const v1::PromptSource& source);

// True for a source whose ids are drawn by tasks of a stage of their own.
bool NeedsSampling(const v1::PromptSource& source);

// Whether prompts of a resolved source begin with the model's BOS token.
bool StartsWithBos(v1::Bos::Value bos, const ModelFacts& model);

int64_t BlockCount(int64_t samples);
v1::SampleBlock BlockOf(int64_t block, int64_t samples);

// The task that draws a block of a `sampled` source.
v1::Sampling SamplingOf(const v1::PromptSource& source, uint64_t seed, const ModelFacts& model,
                        int64_t block);
// A block of a source that needs neither an earlier stage nor a corpus: uniform_tokens, token_ids or
// generated.
v1::PromptBlock PromptBlockOf(const v1::PromptSource& source, uint64_t seed, const ModelFacts& model,
                              int64_t block);

// The ids that a sampling stage drew: one block for each of its tasks, in plan order. INTERNAL when a task
// did not give exactly its samples at their length.
absl::StatusOr<std::vector<v1::PromptBlock>> SampledBlocks(StageReadings& readings, int64_t stage);

}  // namespace ropelab::experiments
