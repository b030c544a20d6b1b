#include "worker/engine/prompt_keys.h"

namespace ropelab::engine {

PromptKeysKeeper::PromptKeysKeeper(const model::LoadedModel& model, int64_t tokens, const EditsByLayer& edits,
                                   int64_t end_layer, absl::FunctionRef<absl::Status()> progress)
    : model_(model),
      tokens_(tokens),
      edits_(edits),
      end_layer_(end_layer),
      progress_(progress),
      layers_(static_cast<size_t>(model.config.layers)) {}

void PromptKeysKeeper::Hidden(int64_t layer, const at::Tensor& hidden) {
  const formats::ModelConfig& config = model_.config;
  if (layer == end_layer_) {
    if (layer < config.layers) residual_ = hidden.clone();
    return;
  }
  // Made here, on one thread, before the layer's rows come from several.
  const auto options = at::TensorOptions().dtype(at::kFloat).device(model_.device);
  PromptKeys& kept = layers_[layer];
  kept.keys = at::empty({config.kv_heads, config.head_dim, tokens_}, options);
  kept.values = at::empty({config.kv_heads, tokens_, config.head_dim}, options);
  const auto edits = edits_.find(layer);
  if (edits == edits_.end() || edits->second.own_heads().empty()) return;
  const int64_t own = static_cast<int64_t>(edits->second.own_heads().size());
  kept.own_keys = at::empty({own, config.head_dim, tokens_}, options);
}

void PromptKeysKeeper::Projected(const ProjectedRows& rows) {
  const PromptKeys& kept = layers_[rows.layer];
  const int64_t count = rows.key_rot.size(0);
  kept.keys.narrow(2, rows.first_row, count).copy_(rows.key_rot.permute({1, 2, 0}));
  kept.values.narrow(1, rows.first_row, count).copy_(rows.value.transpose(0, 1));
  if (!kept.own_keys.defined()) return;
  kept.own_keys.narrow(2, rows.first_row, count).copy_(rows.own_keys.permute({1, 2, 0}));
}

absl::Status PromptKeysKeeper::LayerDone(int64_t) {
  return progress_();
}

int64_t PromptKeysBytes(const formats::ModelConfig& config, int64_t positions) {
  return 2 * config.layers * config.kv_heads * config.head_dim * positions *
         static_cast<int64_t>(sizeof(float));
}

}  // namespace ropelab::engine
