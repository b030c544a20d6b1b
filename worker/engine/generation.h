// Greedy answers to one prompt under several conditions: what lies below the first edited layer is computed
// once, and the conditions decode side by side. EXPERIMENTS.md section 9.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "worker/engine/decoder.h"
#include "worker/engine/edits.h"

namespace ropelab::engine {

// The model under edits of its forward pass and with layers whose weights stand in. Null: as it is.
struct Condition {
  const HeadEdits* edits = nullptr;
  const EditedLayers* edited_layers = nullptr;
};

struct GreedyOptions {
  int64_t most_tokens = 20;
  std::vector<int32_t> stop_ids;  // one of these ends an answer and belongs to it
};

// The answers in the order of the conditions: at each step the largest logit, the smallest id of a tie.
// Decoding runs at a fixed count of rows, so an answer's bits do not depend on what is decoded beside it. The
// edits' positions count prompt and answer. `progress` is asked after each layer of each pass and each step;
// what it returns ends the whole. Errors: CheckEdits', CheckPrompt's (prompt and most_tokens together must
// fit the model's positions), Forward's.
absl::StatusOr<std::vector<std::vector<int32_t>>> AnswerGreedily(const model::LoadedModel& model,
                                                                 std::span<const int32_t> prompt,
                                                                 std::span<const Condition> conditions,
                                                                 const GreedyOptions& options,
                                                                 absl::FunctionRef<absl::Status()> progress);

// Bytes beside the weights, at most. On top come, of each condition, its edited layers and twice the
// OwnKeyBytes of its edits over prompt and answer.
int64_t AnswerGreedilyBytes(const model::LoadedModel& model, int64_t tokens, int64_t conditions,
                            int64_t most_tokens, int threads);

}  // namespace ropelab::engine
