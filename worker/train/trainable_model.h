// The llama family's forward pass with gradients: RMSNorm before attention and MLP, rotate-half RoPE, grouped
// queries, SwiGLU, tied output matrix. What it computes is what worker/engine computes on the exported
// weights.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "worker/train/gaze.h"
#include "worker/train/recipe.h"

namespace ropelab::train {

class TrainableModel {
 public:
  // Weights fp32, drawn from the seed: matrices with SD 1/sqrt(inputs), half that where a block adds to the
  // residual, the embedding with SD 0.02, norm weights 1. `products` is the dtype of matrix products,
  // attention and activations inside blocks (kFloat or kBFloat16); the residual and norms are fp32.
  TrainableModel(const ModelShape& shape, int64_t vocabulary, uint64_t seed, at::ScalarType products);

  // How a step differs from the plain forward pass.
  struct Pressure {
    // [B, layers, heads]: each head's output is multiplied by it. Undefined: nothing is.
    at::Tensor head_scale;
    // Null: nobody watches. Else Result::stray is taken.
    const Gaze* gaze = nullptr;
    at::Tensor free;  // [layers, heads], fp32: 1 for heads that may look at needles
  };
  struct Result {
    at::Tensor logits;  // [B, N, V], fp32
    at::Tensor stray;   // StrayGaze, mean over layers; undefined without a gaze
  };
  // ids [B, N], int64, each below the vocabulary; 1 <= N <= max_positions. libtorch throws otherwise.
  Result Run(const at::Tensor& ids, const Pressure& pressure) const;

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
  // Adds the layer's StrayGaze to `stray`.
  at::Tensor Attention(size_t layer, const at::Tensor& normed, const Pressure& pressure,
                       at::Tensor& stray) const;

  const ModelShape shape_;
  const uint64_t seed_;
  const at::ScalarType products_;
  at::Tensor embedding_, final_norm_;
  std::vector<Layer> layers_;
  at::Tensor cosines_, sines_;  // [max_positions, head_dim], of the products' dtype
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
};

}  // namespace ropelab::train
