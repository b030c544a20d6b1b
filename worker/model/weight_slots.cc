#include "worker/model/weight_slots.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/model/tensor_reader.h"

namespace ropelab::model {
namespace {

std::string Joined(std::string_view prefix, std::string_view name, std::string_view suffix = "") {
  return std::string(prefix).append(name).append(suffix);
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

bool IsIgnored(const std::string& name, const formats::ModelConfig& config,
               const formats::WeightNames& names) {
  // A tied checkpoint may store the shared matrix under both names.
  if (config.tied_embeddings && name == names.lm_head) return true;
  for (const std::string_view suffix : names.ignored_suffixes) {
    if (name.size() >= suffix.size() && std::string_view(name).substr(name.size() - suffix.size()) == suffix)
      return true;
  }
  return false;
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

absl::Status CheckTensors(const formats::Checkpoint& checkpoint, const std::string& directory,
                          const formats::ModelConfig& config, const formats::WeightNames& names,
                          const std::vector<WeightSlot>& slots) {
  std::unordered_set<std::string> wanted;
  for (const WeightSlot& slot : slots) {
    wanted.insert(slot.name);
    const formats::TensorEntry* entry = checkpoint.Find(slot.name);
    if (entry == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(directory, ": tensor ", slot.name, " of shape ", ShapeText(slot.shape),
                       " is missing; config.json calls for it: copy the checkpoint again"));
    }
    const std::string where =
        absl::StrCat((std::filesystem::path(directory) / entry->file).string(), ": tensor ", slot.name);
    if (entry->shape != slot.shape) {
      return absl::InvalidArgumentError(absl::StrCat(where, " has shape ", ShapeText(entry->shape),
                                                     ", config.json calls for ", ShapeText(slot.shape),
                                                     "; the two belong to different models"));
    }
    if (!StoredType(entry->dtype).has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " is stored as ", entry->dtype,
                       "; weights are read from F32, BF16 and F16: convert the checkpoint"));
    }
  }
  for (const formats::TensorEntry& entry : checkpoint.tensors()) {
    if (wanted.count(entry.name) > 0 || IsIgnored(entry.name, config, names)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat((std::filesystem::path(directory) / entry.file).string(), ": tensor ", entry.name,
                     " has no place in a ", config.family, " of ", config.layers,
                     " layers as config.json describes it; leaving it out would compute another model"));
  }
  return absl::OkStatus();
}

}  // namespace ropelab::model
