// The llama family's forward pass with gradients: RMSNorm before attention and MLP, rotate-half RoPE, grouped
// queries, SwiGLU, tied output matrix. What it computes is what worker/engine computes on the exported
// weights.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "worker/train/recipe.h"

namespace ropelab::train {

class TrainableModel {
 public:
  // Weights fp32, drawn from the seed: matrices with SD 1/sqrt(inputs), half that where a block adds to the
  // residual, the embedding with SD 0.02, norm weights 1. `products` is the dtype of matrix products,
  // attention and activations inside blocks (kFloat or kBFloat16); the residual and norms are fp32.
  TrainableModel(const ModelShape& shape, int64_t vocabulary, uint64_t seed, at::ScalarType products);

  // ids [B, N], int64. `head_scale` [B, layers, heads] or undefined: each head's output is multiplied by it.
  // Returns logits [B, N, V], fp32.
  at::Tensor Logits(const at::Tensor& ids, const at::Tensor& head_scale) const;

  // By the names that Hugging Face gives them, in a fixed order. Changing a tensor in place changes the
  // model.
  const std::vector<std::pair<std::string, at::Tensor>>& Parameters() const { return parameters_; }

 private:
  struct Layer {
    at::Tensor attention_norm, query, key, value, output, mlp_norm, gate, up, down;
  };
  at::Tensor Add(const std::string& name, at::Tensor tensor);
  at::Tensor Draw(const std::string& name, int64_t outputs, int64_t inputs, double sd);
  at::Tensor Norm(const at::Tensor& residual, const at::Tensor& weight) const;
  at::Tensor Attention(const Layer& layer, const at::Tensor& normed, const at::Tensor& head_scale) const;

  const ModelShape shape_;
  const uint64_t seed_;
  const at::ScalarType products_;
  at::Tensor embedding_, final_norm_;
  std::vector<Layer> layers_;
  at::Tensor cosines_, sines_;  // [max_positions, head_dim], of the products' dtype
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
};

}  // namespace ropelab::train
