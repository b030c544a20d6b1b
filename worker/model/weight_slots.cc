#include "worker/model/weight_slots.h"

#include <string_view>

#include "absl/strings/str_cat.h"

namespace ropelab::model {
namespace {

std::string Joined(std::string_view prefix, std::string_view name, std::string_view suffix = "") {
  return std::string(prefix).append(name).append(suffix);
}

}  // namespace

std::vector<WeightSlot> WeightSlots(const formats::ModelConfig& config, const formats::WeightNames& names,
                                    Weights* weights) {
  const int64_t d = config.hidden_size;
  const int64_t m = config.intermediate_size;
  const int64_t query_rows = config.query_heads * config.head_dim;
  const int64_t key_rows = config.kv_heads * config.head_dim;
  const bool norms_before = config.norm_placement != formats::NormPlacement::kAfter;
  const bool norms_after = config.norm_placement != formats::NormPlacement::kBefore;
  weights->layers.assign(static_cast<size_t>(config.layers), LayerWeights());
  std::vector<WeightSlot> slots;
  slots.push_back({std::string(names.embedding), {config.vocabulary, d}, &weights->embedding});
  for (int64_t index = 0; index < config.layers; ++index) {
    LayerWeights& layer = weights->layers[static_cast<size_t>(index)];
    const std::string prefix = absl::StrCat(std::string(names.layer_prefix), index, ".");
    const auto linear = [&](std::string_view name, int64_t out, int64_t in, at::Tensor* weight,
                            at::Tensor* scale, bool biased, at::Tensor* bias) {
      slots.push_back({Joined(prefix, name, ".weight"), {out, in}, weight, scale});
      if (biased) slots.push_back({Joined(prefix, name, ".bias"), {out}, bias});
    };
    const auto norm = [&](std::string_view name, int64_t size, at::Tensor* weight) {
      slots.push_back({Joined(prefix, name), {size}, weight});
    };
    if (norms_before) norm(names.attention_norm, d, &layer.attention_norm);
    linear(names.query, query_rows, d, &layer.query, &layer.query_scale, config.qkv_bias, &layer.query_bias);
    linear(names.key, key_rows, d, &layer.key, &layer.key_scale, config.qkv_bias, &layer.key_bias);
    linear(names.value, key_rows, d, &layer.value, &layer.value_scale, config.qkv_bias, &layer.value_bias);
    if (config.query_key_norm != formats::QueryKeyNorm::kNone) {
      const bool per_head = config.query_key_norm == formats::QueryKeyNorm::kPerHead;
      norm(names.query_norm, per_head ? config.head_dim : query_rows, &layer.query_norm);
      norm(names.key_norm, per_head ? config.head_dim : key_rows, &layer.key_norm);
    }
    linear(names.output, d, query_rows, &layer.output, &layer.output_scale, config.output_bias,
           &layer.output_bias);
    if (norms_after) norm(names.attention_out_norm, d, &layer.attention_out_norm);
    if (norms_before) norm(names.mlp_norm, d, &layer.mlp_norm);
    linear(names.gate, m, d, &layer.gate, &layer.gate_scale, config.mlp_bias, &layer.gate_bias);
    linear(names.up, m, d, &layer.up, &layer.up_scale, config.mlp_bias, &layer.up_bias);
    linear(names.down, d, m, &layer.down, &layer.down_scale, config.mlp_bias, &layer.down_bias);
    if (norms_after) norm(names.mlp_out_norm, d, &layer.mlp_out_norm);
  }
  slots.push_back({std::string(names.final_norm), {d}, &weights->final_norm});
  if (!config.tied_embeddings)
    slots.push_back({std::string(names.lm_head), {config.vocabulary, d}, &weights->lm_head});
  return slots;
}

int64_t SlotBytes(const std::vector<WeightSlot>& slots, at::ScalarType dtype) {
  const bool int8 = dtype == kInt8Weights;
  const auto wide = static_cast<int64_t>(c10::elementSize(int8 ? at::kFloat : dtype));
  int64_t bytes = 0;
  for (const WeightSlot& slot : slots) {
    int64_t elements = 1;
    for (const int64_t dimension : slot.shape) elements *= dimension;
    bytes += int8 && slot.scale != nullptr ? elements + slot.shape[0] * wide : elements * wide;
  }
  return bytes;
}

}  // namespace ropelab::model
