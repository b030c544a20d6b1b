// Rotary position embedding, rotate_half layout: dimension j is paired with j + D/2.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "worker/formats/model_config.h"

namespace ropelab::engine {

// cos and sin of position * inv_freq for positions [0, n), times the config's attention factor: angle, cos,
// sin and their product in double, rounded once to fp32.
class RotaryTable {
 public:
  // inv_freq in rad/token, one per pair.
  RotaryTable(const std::vector<double>& inv_freq, int64_t positions, at::Device device, double factor = 1.0);

  // For a prompt of `tokens` tokens: every position turns by the frequencies of that length.
  static RotaryTable OfPrompt(const formats::ModelConfig& config, int64_t tokens, at::Device device);
  // For tokens that are fed one by one: position p turns by the frequencies of a prompt of p + 1 tokens, the
  // keys before it keep theirs. Where frequencies depend on the length (dynamic, longrope) this is what
  // Hugging Face's growing cache holds, and it differs from OfPrompt.
  static RotaryTable OfDecoding(const formats::ModelConfig& config, int64_t capacity, at::Device device);

  // x [n, heads, D] fp32, row r at position first + r. Returns the rotated copy, contiguous.
  at::Tensor Rotate(const at::Tensor& x, int64_t first) const { return Rotate(x, first, x.size(0)); }
  // The same with every row at one position.
  at::Tensor RotateAt(const at::Tensor& x, int64_t position) const { return Rotate(x, position, 1); }

 private:
  RotaryTable(const at::Tensor& cosines, const at::Tensor& sines, at::Device device)
      : cosine_(cosines.to(device)), sine_(sines.to(device)) {}
  at::Tensor Rotate(const at::Tensor& x, int64_t first, int64_t positions) const;

  at::Tensor cosine_, sine_;  // [n, D/2] fp32, on the model's device
};

}  // namespace ropelab::engine
