// Rotary position embedding, rotate_half layout: dimension j is paired with j + D/2.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace ropelab::engine {

// cos and sin of position * inv_freq for positions [0, n): angle, cos and sin in double, rounded once to
// fp32.
class RotaryTable {
 public:
  // inv_freq in rad/token, one per pair.
  RotaryTable(const std::vector<double>& inv_freq, int64_t positions, at::Device device);

  // x [n, heads, D] fp32, row r at position first + r. Returns the rotated copy, contiguous.
  at::Tensor Rotate(const at::Tensor& x, int64_t first) const { return Rotate(x, first, x.size(0)); }
  // The same with every row at one position.
  at::Tensor RotateAt(const at::Tensor& x, int64_t position) const { return Rotate(x, position, 1); }

 private:
  at::Tensor Rotate(const at::Tensor& x, int64_t first, int64_t positions) const;

  at::Tensor cosine_, sine_;  // [n, D/2] fp32, on the model's device
};

}  // namespace ropelab::engine
