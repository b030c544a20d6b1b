// Decoding of one token after the other for several conditions of the same prompt, side by side.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/decode_session.h"
#include "worker/engine/decoder.h"
#include "worker/engine/layer_edits.h"
#include "worker/engine/prompt_keys.h"
#include "worker/engine/rope.h"
#include "worker/engine/row_attention.h"
#include "worker/model/loaded_model.h"

namespace ropelab::engine {

// A condition with what its pass over the prompt left.
struct DecodedCondition {
  const EditsByLayer* edits = nullptr;
  const EditedLayers* edited_layers = nullptr;  // null: none
  std::vector<PromptKeys> prompt;               // of every layer
};

// A model's weights ready for the products of decoding: made once for all groups of conditions.
struct DecodeWeights {
  explicit DecodeWeights(const model::LoadedModel& model);
  std::vector<model::LayerWeights> layers;
  at::Tensor lm_head;
};

class ConditionDecoder {
 public:
  // At most `rows` conditions, one a row; products have `rows` rows whatever their number, so a row's bits do
  // not depend on the others. The prompt has `tokens` tokens, at most `capacity` are fed after it. Model,
  // weights, edits and edited layers must outlive this.
  ConditionDecoder(const model::LoadedModel& model, const DecodeWeights& weights,
                   std::vector<DecodedCondition> conditions, int64_t tokens, int64_t capacity,
                   int64_t rows = kDecodeRows);

  // Feeds one token per row, `rows` ids, at the next position; rows that are not `live` take any id of the
  // vocabulary and are live no more. Returns logits [rows, V] fp32 of what follows, of live rows.
  // FAILED_PRECONDITION naming the layer where a live row's attention logit is not finite.
  absl::StatusOr<at::Tensor> Step(std::span<const int32_t> ids, const std::vector<bool>& live);

  // Bytes that a decoder of kDecodeRows and its steps allocate beside the weights and the prompt's keys,
  // without own keys.
  static int64_t Bytes(const model::LoadedModel& model, int64_t tokens, int64_t capacity);

 private:
  // Rows whose layer has the same weights.
  struct Variant {
    model::LayerWeights weights;  // ready for products
    std::vector<int64_t> rows;
  };
  struct Layer {
    std::vector<Variant> projections;  // by what comes before attention
    std::vector<Variant> finishes;     // by what comes after it
    RowAttention attention;
  };
  Layer MakeLayer(int64_t layer, int64_t tokens, int64_t capacity) const;
  const LayerEdits* EditsOf(int64_t row, int64_t layer) const;
  absl::Status Attend(int64_t index, const at::Tensor& residual, const std::vector<bool>& live,
                      at::Tensor& heads);
  void Finish(int64_t index, at::Tensor& residual, const at::Tensor& heads) const;

  const model::LoadedModel& model_;
  const DecodeWeights& weights_;
  const std::vector<DecodedCondition> conditions_;
  const int64_t tokens_, rows_;
  const RotaryTable rotary_;
  std::vector<Layer> layers_;
  int64_t fed_ = 0;
};

}  // namespace ropelab::engine
