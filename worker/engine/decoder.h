// The forward pass of a whole prompt, driven by ModelConfig alone.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/edits.h"
#include "worker/engine/observer.h"
#include "worker/model/loaded_model.h"

namespace ropelab::engine {

// Query rows per attention block. Part of what decides bits.
inline constexpr int64_t kBlockRows = 64;
// Rows per product of the row-wise parts. Part of what decides bits.
inline constexpr int64_t kRowChunk = 128;

// Layers whose weights stand in for the model's own, by layer.
using EditedLayers = std::map<int64_t, model::LayerWeights>;

// What enters a layer, [T, d] in the activations' dtype: as an earlier pass showed it to Observer::Hidden.
// Copied, never changed.
struct LayerInput {
  int64_t layer = 0;
  at::Tensor residual;
};

struct ForwardOptions {
  int64_t block_rows = kBlockRows;
  // Rows whose output logits are wanted, ascending.
  std::vector<int64_t> logit_rows;
  // False: the pass ends at the last layer's probabilities; its outputs, the last Hidden call and the logits
  // are left out.
  bool outputs = true;
  // Null: the model as it is. Must outlive the pass.
  const EditedLayers* edited_layers = nullptr;
  // Null: none. Must outlive the pass. What changes nothing (no dims, a factor of 1) moves no bit; what is
  // edited in layers that the pass does not reach is passed over.
  const HeadEdits* head_edits = nullptr;
  // Where the pass starts; absent: at the embedding. From what an earlier pass showed, the same bits follow.
  std::optional<LayerInput> start = std::nullopt;
  // The pass ends before this layer, with the Hidden call of its input and without logits; absent: after the
  // last one.
  std::optional<int64_t> end_layer = std::nullopt;
};

// INVALID_ARGUMENT, naming position and value: no tokens, more than config.max_positions, an id outside the
// vocabulary.
absl::Status CheckPrompt(std::span<const int32_t> ids, const formats::ModelConfig& config);

// Runs one prompt. Row-wise parts run in chunks of kRowChunk rows and attention in blocks, one thread each,
// so bits do not depend on the number of threads as long as products inside a thread do not. Returns logits
// [logit_rows, V], fp32 (rounded to the activations' dtype). Errors: CheckPrompt's, CheckEdits';
// INVALID_ARGUMENT for a start or an end that is not in the model or does not fit the prompt;
// FAILED_PRECONDITION naming the layer where a logit is not finite; what the observer returns. libtorch's
// exceptions pass through.
absl::StatusOr<at::Tensor> Forward(const model::LoadedModel& model, std::span<const int32_t> ids,
                                   const ForwardOptions& options, Observer& observer);

// Bytes that Forward allocates at most beside the weights, with `threads` threads; under edits OwnKeyBytes
// besides.
int64_t ForwardBytes(const model::LoadedModel& model, int64_t tokens, int64_t logit_rows, int threads);

}  // namespace ropelab::engine
