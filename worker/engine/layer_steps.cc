#include "worker/engine/layer_steps.h"

#include "worker/engine/layer_ops.h"
#include "worker/engine/row_products.h"

namespace ropelab::engine {
namespace {

using formats::ModelConfig;
using formats::NormPlacement;
using formats::QueryKeyNorm;

// The norm of this config over the last dimension of x.
at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight, const ModelConfig& config) {
  if (config.norm_adds_one || config.norm_rounds_last) {
    return WideRmsNorm(x, weight, config.rms_norm_eps, config.norm_adds_one ? 1.0 : 0.0);
  }
  return RmsNorm(x, weight, config.rms_norm_eps);
}

// What goes into a block, and what it adds to the residual.
at::Tensor BlockInput(const at::Tensor& residual, const at::Tensor& weight, const ModelConfig& config) {
  return config.norm_placement == NormPlacement::kAfter ? residual : Norm(residual, weight, config);
}
at::Tensor BlockOutput(const at::Tensor& output, const at::Tensor& weight, const ModelConfig& config) {
  return config.norm_placement == NormPlacement::kBefore ? output : Norm(output, weight, config);
}

// heads [rows, heads, D] after the norm of queries and keys.
at::Tensor NormedRows(const at::Tensor& heads, const at::Tensor& weight, const ModelConfig& config) {
  switch (config.query_key_norm) {
    case QueryKeyNorm::kAllHeads:
      return Norm(heads.reshape({heads.size(0), -1}), weight, config).view(heads.sizes());
    case QueryKeyNorm::kPerHead:
      return Norm(heads, weight, config);
    case QueryKeyNorm::kNone:
      break;
  }
  return heads;
}

}  // namespace

at::Tensor Embed(const model::LoadedModel& model, std::span<const int32_t> ids) {
  const at::Tensor indices =
      at::tensor(at::ArrayRef<int32_t>(ids.data(), ids.size()), at::kInt).to(at::kLong).to(model.device);
  at::Tensor rows = at::embedding(model.weights.embedding, indices).to(model.dtype);
  if (model.config.embedding_scale != 1.0) {
    rows.mul_(at::scalar_tensor(model.config.embedding_scale, at::kDouble).to(model.dtype).item());
  }
  return rows;
}

at::Tensor AttentionInput(const at::Tensor& residual, const model::LayerWeights& weights,
                          const ModelConfig& config) {
  return BlockInput(residual, weights.attention_norm, config);
}

HeadRows RawHeads(const at::Tensor& residual, const model::LayerWeights& weights, const ModelConfig& config) {
  const at::Tensor x = AttentionInput(residual, weights, config);
  const auto project = [&](const at::Tensor& weight, const at::Tensor& bias, int64_t heads) {
    return Linear(x, weight, bias).view({x.size(0), heads, config.head_dim});
  };
  return {project(weights.query, weights.query_bias, config.query_heads),
          project(weights.key, weights.key_bias, config.kv_heads),
          project(weights.value, weights.value_bias, config.kv_heads)};
}

HeadRows NormedHeads(const HeadRows& raw, const model::LayerWeights& weights, const ModelConfig& config) {
  return {NormedRows(raw.query, weights.query_norm, config).to(at::kFloat),
          NormedRows(raw.key, weights.key_norm, config).to(at::kFloat), raw.value.to(at::kFloat)};
}

HeadRows ProjectHeads(const at::Tensor& residual, const model::LayerWeights& weights,
                      const ModelConfig& config) {
  return NormedHeads(RawHeads(residual, weights, config), weights, config);
}

void FinishLayer(at::Tensor& residual, const at::Tensor& heads, const model::LayerWeights& weights,
                 const ModelConfig& config) {
  const at::Tensor joined = heads.reshape({heads.size(0), -1}).to(residual.scalar_type());
  const at::Tensor attention = Linear(joined, weights.output, weights.output_bias);
  residual.add_(BlockOutput(attention, weights.attention_out_norm, config));
  const at::Tensor mlp = Mlp(BlockInput(residual, weights.mlp_norm, config), weights, config.activation);
  residual.add_(BlockOutput(mlp, weights.mlp_out_norm, config));
}

at::Tensor OutputLogits(const at::Tensor& residual, const at::Tensor& final_norm, const at::Tensor& lm_head,
                        const ModelConfig& config) {
  at::Tensor logits = Linear(Norm(residual, final_norm, config), lm_head, {}).to(at::kFloat);
  if (config.final_soft_cap == 0) return logits;
  if (logits.is_cpu()) {
    CapRows(logits, config.final_soft_cap);
  } else {
    logits.div_(config.final_soft_cap).tanh_().mul_(config.final_soft_cap);
  }
  return RoundedTo(residual.scalar_type(), logits);
}

}  // namespace ropelab::engine
