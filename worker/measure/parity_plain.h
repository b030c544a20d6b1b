// The decoder once more, as a textbook writes it: in double, with N x N attention, one tensor operation a
// step. It shares no line with the engine, so that the two agree only where both do what the config says.
// Slow, and quadratic in memory: for the parity gate.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// One layer on T tokens; everything in double, on the model's device.
struct PlainLayer {
  at::Tensor query_pre, key_pre;  // [H, T, D], [G, T, D]: after bias and q/k norm
  at::Tensor query_rot, key_rot;  // after RoPE
  at::Tensor scores;              // [H, T, T]: after softmax; 0 where a row does not see
  double largest_logit = 0;       // absolute, scaled and soft-capped, of what a row sees
  at::Tensor output;              // [T, d]: the next layer's input
};

// hidden [T, d] is the layer's input in double. Weights are those of `model`, widened.
PlainLayer RunPlainLayer(const model::LoadedModel& model, int64_t layer, const at::Tensor& hidden);

// [T, d] in double: the first layer's input.
at::Tensor PlainEmbedding(const model::LoadedModel& model, const std::vector<int32_t>& ids);

// [T, V] in double from the last layer's output.
at::Tensor PlainLogits(const model::LoadedModel& model, const at::Tensor& hidden);

}  // namespace ropelab::measure
