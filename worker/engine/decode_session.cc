#include "worker/engine/decode_session.h"

#include "worker/engine/layer_ops.h"

namespace ropelab::engine {

DecodeSession::DecodeSession(const model::LoadedModel& model, int64_t capacity)
    : model_(model), rotary_(model.inv_freq, capacity, model.device) {
  const at::ScalarType type = ProductType(model.dtype, model.device);
  for (const model::LayerWeights& layer : model.weights.layers) {
    layers_.push_back(ForProducts(layer, type));
    caches_.emplace_back(kDecodeRows, model.config.kv_heads, model.config.head_dim, capacity, model.device);
  }
  lm_head_ = model.weights.lm_head.to(type);
}

at::Tensor DecodeSession::Attend(int64_t layer, const at::Tensor& normed) {
  const formats::ModelConfig& config = model_.config;
  const model::LayerWeights& weights = layers_[layer];
  const auto project = [&](const at::Tensor& weight, const at::Tensor& bias, int64_t heads) {
    return Linear(normed, weight, bias).view({kDecodeRows, heads, config.head_dim}).to(at::kFloat);
  };
  const auto rotate = [&](const at::Tensor& x) {
    return rotary_.RotateAt(x, position_).to(model_.dtype).to(at::kFloat);
  };
  const at::Tensor query = rotate(project(weights.query, weights.query_bias, config.query_heads));
  const at::Tensor key = rotate(project(weights.key, weights.key_bias, config.kv_heads));
  caches_[layer].Store(position_, key, project(weights.value, weights.value_bias, config.kv_heads));
  const int64_t window = config.sliding_window.empty() ? 0 : config.sliding_window[layer];
  const at::Tensor heads = caches_[layer].Attend(query, position_, window, config.attention_scale);
  return Linear(heads.view({kDecodeRows, -1}).to(model_.dtype), weights.output, weights.output_bias);
}

at::Tensor DecodeSession::Step(const std::array<int32_t, kDecodeRows>& ids) {
  at::NoGradGuard no_gradients;
  const double eps = model_.config.rms_norm_eps;
  const at::Tensor indices = at::tensor(at::ArrayRef<int32_t>(ids), at::kInt).to(at::kLong).to(model_.device);
  at::Tensor hidden = at::embedding(model_.weights.embedding, indices).to(model_.dtype);
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    hidden.add_(Attend(static_cast<int64_t>(layer), RmsNorm(hidden, layers_[layer].attention_norm, eps)));
    hidden.add_(Mlp(RmsNorm(hidden, layers_[layer].mlp_norm, eps), layers_[layer]));
  }
  ++position_;
  return Linear(RmsNorm(hidden, model_.weights.final_norm, eps), lm_head_, {}).to(at::kFloat);
}

int64_t DecodeSession::Bytes(const model::LoadedModel& model, int64_t capacity) {
  const formats::ModelConfig& c = model.config;
  const int64_t wide = sizeof(float);
  const int64_t caches = 2 * c.layers * kDecodeRows * c.kv_heads * c.head_dim * capacity * wide;
  const int64_t step = kDecodeRows * wide *
                       (6 * c.hidden_size + 6 * c.intermediate_size + 8 * c.query_heads * c.head_dim +
                        3 * c.vocabulary + capacity);
  const bool widens = ProductType(model.dtype, model.device) != model.dtype;
  return caches + step + 2 * capacity * c.head_dim * wide + (widens ? 2 * model.bytes : 0);
}

}  // namespace ropelab::engine
