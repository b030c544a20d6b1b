// Decoding with cached keys and values, always with the same number of rows: a product's bits may depend on
// how many rows it has, so a sample's tokens do not depend on how many samples run beside it.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <vector>

#include "worker/engine/decode_attention.h"
#include "worker/engine/rope.h"
#include "worker/model/loaded_model.h"

namespace ropelab::engine {

inline constexpr int64_t kDecodeRows = 8;

class DecodeSession {
 public:
  // `capacity`: positions that will be fed at most. `model` must outlive the session.
  DecodeSession(const model::LoadedModel& model, int64_t capacity);

  // Feeds one token per row at the next position; rows without a sample repeat any valid id. Ids are within
  // the vocabulary, positions fed so far below the capacity. Returns logits [kDecodeRows, V] fp32 of what
  // follows. libtorch's exceptions pass through.
  at::Tensor Step(const std::array<int32_t, kDecodeRows>& ids);
  int64_t position() const { return position_; }  // tokens fed per row

  // Bytes that a session allocates beside the weights.
  static int64_t Bytes(const model::LoadedModel& model, int64_t capacity);

 private:
  // The heads' outputs [kDecodeRows, H, D] fp32 at the next position of this layer.
  at::Tensor Attend(int64_t layer, const at::Tensor& residual);

  const model::LoadedModel& model_;
  RotaryTable rotary_;
  std::vector<model::LayerWeights> layers_;  // ready for products
  at::Tensor lm_head_;
  std::vector<LayerCache> caches_;
  int64_t position_ = 0;
};

}  // namespace ropelab::engine
