#include "worker/engine/layer_steps.h"

#include "worker/engine/layer_ops.h"

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

// projected [rows, heads * D] as [rows, heads, D] after the norm of queries and keys.
at::Tensor NormedHeads(const at::Tensor& projected, int64_t heads, const at::Tensor& weight,
                       const ModelConfig& config) {
  const at::Tensor whole =
      config.query_key_norm == QueryKeyNorm::kAllHeads ? Norm(projected, weight, config) : projected;
  const at::Tensor split = whole.view({whole.size(0), heads, config.head_dim});
  return config.query_key_norm == QueryKeyNorm::kPerHead ? Norm(split, weight, config) : split;
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

HeadRows ProjectHeads(const at::Tensor& residual, const model::LayerWeights& weights,
                      const ModelConfig& config) {
  const at::Tensor x = AttentionInput(residual, weights, config);
  const at::Tensor query = Linear(x, weights.query, weights.query_bias);
  const at::Tensor key = Linear(x, weights.key, weights.key_bias);
  const at::Tensor value = Linear(x, weights.value, weights.value_bias);
  return {NormedHeads(query, config.query_heads, weights.query_norm, config).to(at::kFloat),
          NormedHeads(key, config.kv_heads, weights.key_norm, config).to(at::kFloat),
          value.view({x.size(0), config.kv_heads, config.head_dim}).to(at::kFloat)};
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
  logits.div_(config.final_soft_cap).tanh_().mul_(config.final_soft_cap);
  return RoundedTo(residual.scalar_type(), logits);
}

}  // namespace ropelab::engine
