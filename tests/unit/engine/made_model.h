// A small model that is made in memory from a config: every part that the config asks for is there, filled
// with normal numbers. For features and combinations that no fixture has.
#pragma once

#include <ATen/ATen.h>

#include <cmath>

#include "worker/model/loaded_model.h"

namespace ropelab::engine {

// Two layers, grouped queries, head_dim times heads other than hidden_size; the rest as the type's defaults.
inline formats::ModelConfig SmallConfig() {
  formats::ModelConfig config;
  config.family = "made";
  config.layers = 2;
  config.query_heads = 4;
  config.kv_heads = 2;
  config.head_dim = 12;
  config.hidden_size = 40;
  config.intermediate_size = 72;
  config.vocabulary = 90;
  config.max_positions = 512;
  config.rms_norm_eps = 1e-6;
  config.attention_scale = 1 / std::sqrt(12.0);
  config.sliding_window.assign(2, 0);
  return config;
}

inline model::LoadedModel MadeModel(const formats::ModelConfig& config, at::ScalarType dtype = at::kFloat) {
  at::manual_seed(11);
  const auto normal = [&](at::IntArrayRef shape, double deviation) {
    return (at::randn(shape) * deviation).to(dtype);
  };
  const auto norm = [&](bool there, int64_t size) {
    return there ? normal({size}, 0.3) + (config.norm_adds_one ? 0.0 : 1.0) : at::Tensor();
  };
  const auto bias = [&](bool there, int64_t size) { return there ? normal({size}, 0.5) : at::Tensor(); };
  const auto matrix = [&](int64_t out, int64_t in) {
    return normal({out, in}, 1.3 / std::sqrt(static_cast<double>(in)));
  };
  const int64_t d = config.hidden_size, m = config.intermediate_size;
  const int64_t q = config.query_heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  const bool before = config.norm_placement != formats::NormPlacement::kAfter;
  const bool after = config.norm_placement != formats::NormPlacement::kBefore;
  const bool normed = config.query_key_norm != formats::QueryKeyNorm::kNone;
  const bool per_head = config.query_key_norm == formats::QueryKeyNorm::kPerHead;
  model::LoadedModel model;
  model.config = config;
  model.dtype = dtype;
  model.weights.embedding = normal({config.vocabulary, d}, 1.0);
  model.weights.final_norm = norm(true, d);
  model.weights.lm_head = config.tied_embeddings ? model.weights.embedding : matrix(config.vocabulary, d);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    model::LayerWeights w;
    w.attention_norm = norm(before, d);
    w.query = matrix(q, d) * 2;
    w.key = matrix(kv, d);
    w.value = matrix(kv, d);
    w.query_bias = bias(config.qkv_bias, q);
    w.key_bias = bias(config.qkv_bias, kv);
    w.value_bias = bias(config.qkv_bias, kv);
    w.query_norm = norm(normed, per_head ? config.head_dim : q);
    w.key_norm = norm(normed, per_head ? config.head_dim : kv);
    w.output = matrix(d, q);
    w.output_bias = bias(config.output_bias, d);
    w.attention_out_norm = norm(after, d);
    w.mlp_norm = norm(before, d);
    w.gate = matrix(m, d);
    w.up = matrix(m, d);
    w.gate_bias = bias(config.mlp_bias, m);
    w.up_bias = bias(config.mlp_bias, m);
    w.down = matrix(d, m);
    w.down_bias = bias(config.mlp_bias, d);
    w.mlp_out_norm = norm(after, d);
    model.weights.layers.push_back(w);
  }
  model.inv_freq = formats::InverseFrequencies(config);
  for (const model::LayerWeights& w : model.weights.layers) {
    for (const at::Tensor* tensor : {&w.query, &w.key, &w.value, &w.output, &w.gate, &w.up, &w.down})
      model.bytes += static_cast<int64_t>(tensor->nbytes());
  }
  model.bytes += static_cast<int64_t>(model.weights.embedding.nbytes() + model.weights.lm_head.nbytes());
  return model;
}

}  // namespace ropelab::engine
