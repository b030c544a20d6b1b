#include "worker/engine/decode_session.h"

#include "worker/engine/layer_ops.h"
#include "worker/engine/layer_steps.h"
#include "worker/model/int8_weights.h"

namespace ropelab::engine {

DecodeSession::DecodeSession(const model::LoadedModel& model, int64_t capacity)
    : model_(model), rotary_(RotaryTable::OfDecoding(model.config, capacity, model.device)) {
  const at::ScalarType type = ProductType(model.dtype, model.device);
  for (const model::LayerWeights& layer : model.weights.layers) {
    layers_.push_back(ForProducts(layer, type));
    caches_.emplace_back(kDecodeRows, model.config.kv_heads, model.config.head_dim, capacity, model.device);
  }
  lm_head_ = model.weights.lm_head.to(type);
}

at::Tensor DecodeSession::Attend(int64_t layer, const at::Tensor& residual) {
  const auto [query, key, value] = ProjectHeads(residual, layers_[layer], model_.config);
  const auto rotate = [&](const at::Tensor& x) {
    return RoundedTo(model_.dtype, rotary_.RotateAt(x, position_));
  };
  caches_[layer].Store(position_, rotate(key), value);
  return caches_[layer].Attend(rotate(query), position_, RuleOf(model_.config, layer));
}

at::Tensor DecodeSession::Step(const std::array<int32_t, kDecodeRows>& ids) {
  at::NoGradGuard no_gradients;
  at::Tensor residual = Embed(model_, ids);
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const at::Tensor heads = Attend(static_cast<int64_t>(layer), residual);
    FinishLayer(residual, heads, layers_[layer], model_.config);
  }
  ++position_;
  return OutputLogits(residual, model_.weights.final_norm, lm_head_, model_.config);
}

int64_t DecodeSession::Bytes(const model::LoadedModel& model, int64_t capacity) {
  const formats::ModelConfig& c = model.config;
  const int64_t wide = sizeof(float);
  const int64_t caches = 2 * c.layers * kDecodeRows * c.kv_heads * c.head_dim * capacity * wide;
  const int64_t step = kDecodeRows * wide *
                       (6 * c.hidden_size + 6 * c.intermediate_size + 8 * c.query_heads * c.head_dim +
                        3 * c.vocabulary + c.kv_heads * capacity);
  const bool widens = ProductType(model.dtype, model.device) != model.dtype;
  return caches + step + 2 * capacity * c.head_dim * wide + (widens ? 2 * model.bytes : 0) +
         c.layers * model::WidenedBytes(model.weights);
}

}  // namespace ropelab::engine
