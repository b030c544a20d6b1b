#include "worker/train/trainable_model.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/formats/model_config.h"
#include "worker/train/blocked_attention.h"
#include "worker/train/streams.h"

namespace ropelab::train {
namespace {

constexpr double kEmbeddingSd = 0.02;
constexpr double kResidualShare = 0.5;

// Angles in double from Hugging Face's fp32 frequencies, as the engine takes them.
at::Tensor Angles(const ModelShape& shape) {
  formats::ModelConfig config;
  config.head_dim = shape.head_dim;
  config.rope_theta = shape.rope_theta;
  const at::Tensor frequencies = at::tensor(formats::InverseFrequencies(config), at::kDouble);
  const at::Tensor half = at::arange(shape.max_positions, at::kDouble).unsqueeze(1) * frequencies;
  return at::cat({half, half}, 1);
}

at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines) {
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return x * cosines + at::cat({-halves[1], halves[0]}, -1) * sines;
}

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight) {
  return at::linear(x, weight.to(x.scalar_type()));
}

}  // namespace

TrainableModel::TrainableModel(const ModelShape& shape, int64_t vocabulary, uint64_t seed,
                               at::ScalarType products)
    : shape_(shape), seed_(seed), products_(products) {
  const int64_t hidden = shape.hidden, wide = shape.heads * shape.head_dim;
  const int64_t narrow = shape.kv_heads * shape.head_dim;
  const auto fan_in = [](int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); };
  embedding_ = Draw("model.embed_tokens.weight", vocabulary, hidden, kEmbeddingSd);
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string at = absl::StrCat("model.layers.", i, ".");
    Layer layer;
    layer.attention_norm = Add(at + "input_layernorm.weight", at::ones({hidden}));
    layer.query = Draw(at + "self_attn.q_proj.weight", wide, hidden, fan_in(hidden));
    layer.key = Draw(at + "self_attn.k_proj.weight", narrow, hidden, fan_in(hidden));
    layer.value = Draw(at + "self_attn.v_proj.weight", narrow, hidden, fan_in(hidden));
    layer.output = Draw(at + "self_attn.o_proj.weight", hidden, wide, kResidualShare * fan_in(wide));
    layer.mlp_norm = Add(at + "post_attention_layernorm.weight", at::ones({hidden}));
    layer.gate = Draw(at + "mlp.gate_proj.weight", shape.intermediate, hidden, fan_in(hidden));
    layer.up = Draw(at + "mlp.up_proj.weight", shape.intermediate, hidden, fan_in(hidden));
    layer.down = Draw(at + "mlp.down_proj.weight", hidden, shape.intermediate,
                      kResidualShare * fan_in(shape.intermediate));
    layers_.push_back(std::move(layer));
  }
  final_norm_ = Add("model.norm.weight", at::ones({hidden}));
  const at::Tensor angles = Angles(shape);
  cosines_ = angles.cos().to(products);
  sines_ = angles.sin().to(products);
}

at::Tensor TrainableModel::Add(const std::string& name, at::Tensor tensor) {
  tensor.requires_grad_();
  parameters_.emplace_back(name, tensor);
  return tensor;
}

at::Tensor TrainableModel::Draw(const std::string& name, int64_t outputs, int64_t inputs, double sd) {
  std::vector<double> normals(static_cast<size_t>(outputs * inputs));
  MakeStream(seed_, Stream::kWeights, parameters_.size()).Normals(normals);
  return Add(name, (at::tensor(normals, at::kDouble) * sd).to(at::kFloat).view({outputs, inputs}));
}

at::Tensor TrainableModel::Norm(const at::Tensor& residual, const at::Tensor& weight) const {
  const at::Tensor square = residual.square().mean(at::IntArrayRef{-1}, true);
  return (residual * at::rsqrt(square + shape_.norm_eps) * weight).to(products_);
}

at::Tensor TrainableModel::Attention(size_t index, const at::Tensor& normed, const Pressure& pressure,
                                     at::Tensor& stray) const {
  const Layer& layer = layers_[index];
  const int64_t batch = normed.size(0), tokens = normed.size(1);
  const int64_t groups = shape_.kv_heads, shared = shape_.heads / groups, width = shape_.head_dim;
  const at::Tensor cosines = cosines_.slice(0, 0, tokens), sines = sines_.slice(0, 0, tokens);
  const auto keys = [&](const at::Tensor& weight) {
    return Linear(normed, weight).view({batch, tokens, groups, width}).transpose(1, 2);
  };
  const at::Tensor query =
      Rotate(
          Linear(normed, layer.query).view({batch, tokens, groups, shared, width}).permute({0, 2, 3, 1, 4}),
          cosines, sines) *
      (1 / std::sqrt(static_cast<double>(width)));
  const at::Tensor key = Rotate(keys(layer.key), cosines, sines);
  const auto of_layer = static_cast<int64_t>(index);
  if (pressure.gaze != nullptr)
    stray = stray + StrayGaze(query, key, *pressure.gaze, pressure.free[of_layer]);
  at::Tensor out = BlockedAttention(query.reshape({batch * groups, shared, tokens, width}),
                                    key.reshape({batch * groups, tokens, width}),
                                    keys(layer.value).reshape({batch * groups, tokens, width}))
                       .view({batch, shape_.heads, tokens, width});
  if (pressure.head_scale.defined()) {
    out = out * pressure.head_scale.select(1, of_layer).to(products_).view({batch, shape_.heads, 1, 1});
  }
  return Linear(out.transpose(1, 2).reshape({batch, tokens, shape_.heads * width}), layer.output);
}

TrainableModel::Result TrainableModel::Run(const at::Tensor& ids, const Pressure& pressure) const {
  at::Tensor residual = at::embedding(embedding_, ids);
  at::Tensor stray = at::zeros({}, at::kFloat);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    residual = residual + Attention(i, Norm(residual, layer.attention_norm), pressure, stray).to(at::kFloat);
    const at::Tensor normed = Norm(residual, layer.mlp_norm);
    const at::Tensor inner = at::silu(Linear(normed, layer.gate)) * Linear(normed, layer.up);
    residual = residual + Linear(inner, layer.down).to(at::kFloat);
  }
  Result result;
  result.logits = Linear(Norm(residual, final_norm_), embedding_).to(at::kFloat);
  if (pressure.gaze != nullptr) result.stray = stray / static_cast<double>(shape_.layers);
  return result;
}

}  // namespace ropelab::train
