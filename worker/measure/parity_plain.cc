#include "worker/measure/parity_plain.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ropelab::measure {
namespace {

using at::indexing::Slice;
using formats::ModelConfig;

at::Tensor Wide(const at::Tensor& tensor) {
  return tensor.to(at::kDouble);
}

// Widened a part at a time: a whole lm_head in double can be gigabytes.
at::Tensor Project(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  constexpr int64_t kElements = int64_t{1} << 24;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : weight.split(std::max<int64_t>(1, kElements / weight.size(1)), 0))
    parts.push_back(at::matmul(x, Wide(part).t()));
  const at::Tensor product = at::cat(parts, -1);
  return bias.defined() ? product + Wide(bias) : product;
}

// Over the last dimension.
at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight, const ModelConfig& config) {
  const at::Tensor mean_square = (x * x).mean(-1, /*keepdim=*/true);
  const at::Tensor factor = config.norm_adds_one ? Wide(weight) + 1.0 : Wide(weight);
  return x / at::sqrt(mean_square + config.rms_norm_eps) * factor;
}

at::Tensor Capped(const at::Tensor& logits, double cap) {
  return cap > 0 ? cap * at::tanh(logits / cap) : logits;
}

at::Tensor Activate(const at::Tensor& x, formats::Activation activation) {
  switch (activation) {
    case formats::Activation::kSilu:
      return x / (1.0 + at::exp(-x));
    case formats::Activation::kGelu:
      return 0.5 * x * (1.0 + at::erf(x / std::sqrt(2.0)));
    case formats::Activation::kGeluTanh:
      return 0.5 * x * (1.0 + at::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

// x [T, heads * D] -> [heads, T, D], normed as the family wants it.
at::Tensor Heads(at::Tensor x, int64_t heads, const at::Tensor& norm, const ModelConfig& config) {
  if (norm.defined() && config.query_key_norm == formats::QueryKeyNorm::kAllHeads) x = Norm(x, norm, config);
  x = x.reshape({x.size(0), heads, config.head_dim}).permute({1, 0, 2});
  if (norm.defined() && config.query_key_norm == formats::QueryKeyNorm::kPerHead) x = Norm(x, norm, config);
  return x;
}

// Dimension j and j + D/2 are a vector in the plane, turned by position times frequency j.
at::Tensor Rotate(const at::Tensor& x, const ModelConfig& config) {
  const int64_t tokens = x.size(1), half = config.head_dim / 2;
  const std::vector<double> frequencies = formats::InverseFrequencies(config, tokens);
  const auto options = at::TensorOptions().dtype(at::kDouble).device(x.device());
  const at::Tensor angles = at::outer(at::arange(tokens, options),
                                      at::tensor(at::ArrayRef<double>(frequencies), at::kDouble).to(options));
  const at::Tensor real = x.index({Slice(), Slice(), Slice(0, half)});
  const at::Tensor imaginary = x.index({Slice(), Slice(), Slice(half, 2 * half)});
  const at::Tensor turned_real = real * at::cos(angles) - imaginary * at::sin(angles);
  const at::Tensor turned_imaginary = real * at::sin(angles) + imaginary * at::cos(angles);
  return config.rope_scaling.attention_factor * at::cat({turned_real, turned_imaginary}, -1);
}

// [T, T], true where row i sees key j.
at::Tensor Seen(int64_t tokens, int64_t window, at::Device device) {
  const at::Tensor position = at::arange(tokens, at::TensorOptions().dtype(at::kLong).device(device));
  const at::Tensor lag = position.unsqueeze(1) - position.unsqueeze(0);
  const at::Tensor causal = lag.ge(0);
  return window > 0 ? causal.logical_and(lag.lt(window)) : causal;
}

}  // namespace

PlainLayer RunPlainLayer(const model::LoadedModel& model, int64_t layer, const at::Tensor& hidden) {
  const ModelConfig& config = model.config;
  const model::LayerWeights& weights = model.weights.layers[static_cast<size_t>(layer)];
  PlainLayer plain;

  const at::Tensor x =
      weights.attention_norm.defined() ? Norm(hidden, weights.attention_norm, config) : hidden;
  plain.query_pre =
      Heads(Project(x, weights.query, weights.query_bias), config.query_heads, weights.query_norm, config);
  plain.key_pre = Heads(Project(x, weights.key, weights.key_bias), config.kv_heads, weights.key_norm, config);
  const at::Tensor value = Heads(Project(x, weights.value, weights.value_bias), config.kv_heads, {}, config);
  plain.query_rot = Rotate(plain.query_pre, config);
  plain.key_rot = Rotate(plain.key_pre, config);

  // Each KV head once per query head that reads it: 0 0 0 1 1 1 ...
  const int64_t readers = config.query_heads / config.kv_heads;
  const at::Tensor keys = plain.key_rot.repeat_interleave(readers, 0);
  const at::Tensor values = value.repeat_interleave(readers, 0);
  const at::Tensor logits = Capped(config.attention_scale * at::matmul(plain.query_rot, keys.transpose(1, 2)),
                                   config.attention_soft_cap);
  const int64_t window =
      config.sliding_window.empty() ? 0 : config.sliding_window[static_cast<size_t>(layer)];
  const at::Tensor hides = Seen(hidden.size(0), window, hidden.device()).logical_not();
  plain.largest_logit = logits.masked_fill(hides, 0.0).abs().max().item<double>();
  plain.scores = at::softmax(logits.masked_fill(hides, -std::numeric_limits<double>::infinity()), /*dim=*/-1);

  const at::Tensor heads = at::matmul(plain.scores, values).permute({1, 0, 2}).reshape({hidden.size(0), -1});
  at::Tensor attended = Project(heads, weights.output, weights.output_bias);
  if (weights.attention_out_norm.defined()) attended = Norm(attended, weights.attention_out_norm, config);
  const at::Tensor middle = hidden + attended;

  const at::Tensor y = weights.mlp_norm.defined() ? Norm(middle, weights.mlp_norm, config) : middle;
  const at::Tensor gate = Activate(Project(y, weights.gate, weights.gate_bias), config.activation);
  const at::Tensor up = Project(y, weights.up, weights.up_bias);
  at::Tensor mlp = Project(gate * up, weights.down, weights.down_bias);
  if (weights.mlp_out_norm.defined()) mlp = Norm(mlp, weights.mlp_out_norm, config);
  plain.output = middle + mlp;
  return plain;
}

at::Tensor PlainEmbedding(const model::LoadedModel& model, const std::vector<int32_t>& ids) {
  const at::Tensor rows =
      at::tensor(at::ArrayRef<int32_t>(ids), at::kInt).to(at::kLong).to(model.weights.embedding.device());
  return Wide(model.weights.embedding.index_select(0, rows)) * model.config.embedding_scale;
}

at::Tensor PlainLogits(const model::LoadedModel& model, const at::Tensor& hidden) {
  const at::Tensor logits =
      Project(Norm(hidden, model.weights.final_norm, model.config), model.weights.lm_head, {});
  return Capped(logits, model.config.final_soft_cap);
}

}  // namespace ropelab::measure
