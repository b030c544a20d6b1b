// The forward pass straight from its formulas: double precision, whole matrices, one head after the other.
// Shares no code with the decoder.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "worker/model/loaded_model.h"

namespace ropelab::engine {

class PlainModel {
 public:
  // inv_freq by which the token at a position turns.
  using Frequencies = std::function<std::vector<double>(int64_t position)>;

  PlainModel(const model::LoadedModel& model, Frequencies frequencies)
      : weights_(model.weights), config_(model.config), frequencies_(std::move(frequencies)) {}

  // [T, V].
  at::Tensor Logits(const std::vector<int32_t>& ids) const {
    at::Tensor x = at::empty({static_cast<int64_t>(ids.size()), config_.hidden_size}, at::kDouble);
    for (size_t i = 0; i < ids.size(); ++i)
      x[static_cast<int64_t>(i)] = Wide(weights_.embedding)[ids[i]] * config_.embedding_scale;
    for (size_t layer = 0; layer < weights_.layers.size(); ++layer) {
      const model::LayerWeights& w = weights_.layers[layer];
      x = x +
          Norm(Attention(Norm(x, w.attention_norm), w, static_cast<int64_t>(layer)), w.attention_out_norm);
      x = x + Norm(Mlp(Norm(x, w.mlp_norm), w), w.mlp_out_norm);
    }
    return Capped(Product(Norm(x, weights_.final_norm), weights_.lm_head, {}), config_.final_soft_cap);
  }

 private:
  static at::Tensor Wide(const at::Tensor& tensor) { return tensor.to(at::kDouble); }
  static at::Tensor Product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    const at::Tensor product = at::matmul(x, Wide(weight).t());
    return bias.defined() ? product + Wide(bias) : product;
  }
  static at::Tensor Capped(const at::Tensor& x, double cap) { return cap > 0 ? cap * at::tanh(x / cap) : x; }

  // Over the last dimension; x itself where there is no norm.
  at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight) const {
    if (!weight.defined()) return x;
    const at::Tensor root = at::sqrt((x * x).mean(-1, true) + config_.rms_norm_eps);
    return x / root * (Wide(weight) + (config_.norm_adds_one ? 1.0 : 0.0));
  }

  at::Tensor Mlp(const at::Tensor& x, const model::LayerWeights& w) const {
    const at::Tensor gate = Product(x, w.gate, w.gate_bias);
    at::Tensor active = gate / (1 + at::exp(-gate));
    if (config_.activation == formats::Activation::kGelu)
      active = gate * 0.5 * (1 + at::erf(gate / std::sqrt(2.0)));
    if (config_.activation == formats::Activation::kGeluTanh) {
      const at::Tensor inner = std::sqrt(2 / std::acos(-1.0)) * (gate + 0.044715 * gate * gate * gate);
      active = gate * 0.5 * (1 + at::tanh(inner));
    }
    return Product(active * Product(x, w.up, w.up_bias), w.down, w.down_bias);
  }

  // One head [T, D], every position turned by its own frequencies.
  at::Tensor Turned(const at::Tensor& head) const {
    const int64_t pairs = config_.head_dim / 2;
    at::Tensor turned = at::empty_like(head);
    for (int64_t m = 0; m < head.size(0); ++m) {
      const std::vector<double> inv_freq = frequencies_(m);
      for (int64_t p = 0; p < pairs; ++p) {
        const double angle = static_cast<double>(m) * inv_freq[p], f = config_.rope_scaling.attention_factor;
        const double a = head[m][p].item<double>(), b = head[m][p + pairs].item<double>();
        turned[m][p] = f * (a * std::cos(angle) - b * std::sin(angle));
        turned[m][p + pairs] = f * (b * std::cos(angle) + a * std::sin(angle));
      }
    }
    return turned;
  }

  // Every head of a projection, [heads][T, D], after the norm of queries and keys.
  std::vector<at::Tensor> Heads(at::Tensor projected, int64_t heads, const at::Tensor& norm) const {
    if (config_.query_key_norm == formats::QueryKeyNorm::kAllHeads) projected = Norm(projected, norm);
    std::vector<at::Tensor> split;
    for (int64_t head = 0; head < heads; ++head) {
      const at::Tensor one = projected.narrow(1, head * config_.head_dim, config_.head_dim);
      split.push_back(config_.query_key_norm == formats::QueryKeyNorm::kPerHead ? Norm(one, norm) : one);
    }
    return split;
  }

  at::Tensor Attention(const at::Tensor& x, const model::LayerWeights& w, int64_t layer) const {
    const auto queries = Heads(Product(x, w.query, w.query_bias), config_.query_heads, w.query_norm);
    const auto keys = Heads(Product(x, w.key, w.key_bias), config_.kv_heads, w.key_norm);
    const at::Tensor values = Product(x, w.value, w.value_bias);
    const int64_t window = config_.sliding_window[layer];
    at::Tensor seen = at::ones({x.size(0), x.size(0)}, at::kBool).tril();
    if (window > 0) seen = seen.triu(1 - window);
    std::vector<at::Tensor> outputs;
    for (int64_t head = 0; head < config_.query_heads; ++head) {
      const int64_t group = head * config_.kv_heads / config_.query_heads;
      at::Tensor logits =
          at::matmul(Turned(queries[head]), Turned(keys[group]).t()) * config_.attention_scale;
      logits = Capped(logits, config_.attention_soft_cap);
      logits = logits.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
      outputs.push_back(
          at::matmul(at::softmax(logits, -1), values.narrow(1, group * config_.head_dim, config_.head_dim)));
    }
    return Product(at::cat(outputs, 1), w.output, w.output_bias);
  }

  const model::Weights& weights_;
  const formats::ModelConfig& config_;
  const Frequencies frequencies_;
};

}  // namespace ropelab::engine
