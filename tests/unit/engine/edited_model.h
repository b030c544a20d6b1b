// Models and prompts for tests of head edits, and what a pass under edits gives.
#pragma once

#include <ATen/ATen.h>

#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include "tests/unit/engine/made_model.h"
#include "worker/engine/decoder.h"

namespace ropelab::engine {

// Four layers of four query heads on two KV heads, every second with a window.
inline formats::ModelConfig EditedConfig() {
  formats::ModelConfig config = SmallConfig();
  config.layers = 4;
  config.sliding_window = {0, 20, 0, 20};
  return config;
}

// Norms of queries and keys, biases and soft caps besides.
inline formats::ModelConfig NormedConfig() {
  formats::ModelConfig config = EditedConfig();
  config.qkv_bias = true;
  config.query_key_norm = formats::QueryKeyNorm::kPerHead;
  config.attention_soft_cap = config.final_soft_cap = 5;
  config.norm_placement = formats::NormPlacement::kBeforeAndAfter;
  return config;
}

inline std::vector<int32_t> EditedPrompt(int count) {
  std::vector<int32_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back((i * i + 3 * i) % 90);
  return ids;
}

inline HeadEdit ZeroHeadEdit(int64_t layer, int64_t head) {
  HeadEdit edit;
  edit.layer = layer;
  edit.head = head;
  return edit;
}
inline HeadEdit ScaleEdit(int64_t layer, int64_t head, std::vector<int32_t> dims, float factor,
                          EditTarget target = EditTarget::kQuery, EditStage stage = EditStage::kPreRope) {
  HeadEdit edit = ZeroHeadEdit(layer, head);
  edit.kind = EditKind::kScaleDims;
  edit.dims = std::move(dims);
  edit.factor = factor;
  edit.target = target;
  edit.stage = stage;
  return edit;
}
inline HeadEdit UnrotateEdit(int64_t layer, int64_t head, std::vector<int32_t> pairs) {
  HeadEdit edit = ZeroHeadEdit(layer, head);
  edit.kind = EditKind::kUnrotate;
  edit.dims = std::move(pairs);
  return edit;
}
inline HeadEdit From(HeadEdit edit, int64_t first_position) {
  edit.first_position = first_position;
  return edit;
}

// Everything that a pass shows, for comparison bit by bit.
struct Shown : Observer {
  explicit Shown(const formats::ModelConfig& config, int64_t tokens)
      : probabilities(at::zeros({config.layers, config.query_heads, tokens, tokens})) {}
  bool WantsProbabilities(int64_t) override { return true; }
  void Probabilities(const ProbabilityBlock& block) override {
    const at::Tensor& p = block.probabilities;
    probabilities[block.layer]
        .narrow(0, block.first_head, p.size(0))
        .narrow(1, block.first_row, p.size(1))
        .narrow(2, block.first_key, p.size(2))
        .copy_(p);
  }
  void Hidden(int64_t, const at::Tensor& hidden) override { residuals.push_back(hidden.clone()); }

  at::Tensor probabilities;  // [L, H, T, T]
  std::vector<at::Tensor> residuals;
  at::Tensor logits;  // [T, V]
};

// Throws on an error, which fails the test.
inline Shown PassUnder(const model::LoadedModel& model, const std::vector<int32_t>& ids,
                       const HeadEdits& edits, const EditedLayers* layers = nullptr,
                       std::optional<LayerInput> start = std::nullopt) {
  Shown shown(model.config, static_cast<int64_t>(ids.size()));
  ForwardOptions options;
  options.logit_rows.resize(ids.size());
  std::iota(options.logit_rows.begin(), options.logit_rows.end(), 0);
  options.head_edits = &edits;
  options.edited_layers = layers;
  options.start = std::move(start);
  const auto logits = Forward(model, ids, options, shown);
  if (!logits.ok()) throw std::runtime_error(logits.status().ToString());
  shown.logits = *logits;
  return shown;
}

}  // namespace ropelab::engine
