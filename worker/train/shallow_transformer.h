// The two-layer disentangled transformer with one head a layer, reduced to its two trainable blocks. The
// slash paper, Definition 5.2 and equations (12)-(14), with EXPERIMENTS.md section 12's corrections. float64
// throughout.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "worker/train/shallow_prompts.h"

namespace ropelab::train {

// Frequencies in rad/token, pairs interleaved (dimensions 2s-1, 2s). `cone` turns the first d_c = 2
// cone.size() dimensions, where the axis c stands; every pair of the d_x + 2 others turns by `semantic`.
struct ShallowFrequencies {
  std::vector<double> cone;
  double semantic = 0;
};

// m = ceil(N/2) frequencies 2 pi (m+1-s)/(2m+1), descending: their cosines add up to m + 1/2 at lag 0 less
// 1/2 everywhere up to a lag of 2m.
std::vector<double> PulseFrequencies(int64_t positions);

class ShallowTransformer {
 public:
  // W1 = 0 [d_c, d_c], W2 = I [d_x+2, d_x+2], the cone's axis c the first unit vector.
  ShallowTransformer(const ShallowShape& shape, const ShallowFrequencies& frequencies);

  at::Tensor first_weight;   // W_Q of layer 1
  at::Tensor second_weight;  // W_Q of layer 2

  // Layer 1's attention [N, N], the same for every prompt: queries and keys are turns of two fixed vectors,
  // since c is all that layer 1 reads.
  at::Tensor FirstAttention() const;
  struct Answer {
    at::Tensor second_attention;  // [B, N], of the question
    at::Tensor value;             // [B]
  };
  Answer Forward(const ShallowBatch& batch, const at::Tensor& first_attention) const;

 private:
  ShallowShape shape_;
  at::Tensor first_cosine_, first_sine_;    // [d_c/2, N, N], of theta (i - j)
  at::Tensor second_cosine_, second_sine_;  // [N], of theta (N - 1 - j)
  at::Tensor future_;                       // [N, N], true where j > i
};

}  // namespace ropelab::train
