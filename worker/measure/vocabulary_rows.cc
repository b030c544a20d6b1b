#include "worker/measure/vocabulary_rows.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "worker/engine/layer_ops.h"
#include "worker/engine/layer_steps.h"
#include "worker/measure/weight_one_thread.h"

namespace ropelab::measure {
namespace {

// The parts that attention's projections need, so that no copy of an MLP is made for them.
model::LayerWeights ProjectionsOf(const model::LoadedModel& model) {
  const model::LayerWeights& whole = model.weights.layers[0];
  model::LayerWeights part;
  part.attention_norm = whole.attention_norm;
  part.query = whole.query;
  part.key = whole.key;
  part.value = whole.value;
  part.query_scale = whole.query_scale;
  part.key_scale = whole.key_scale;
  part.value_scale = whole.value_scale;
  part.query_bias = whole.query_bias;
  part.key_bias = whole.key_bias;
  part.value_bias = whole.value_bias;
  part.query_norm = whole.query_norm;
  part.key_norm = whole.key_norm;
  return engine::ForProducts(part, engine::ProductType(model.dtype, model.device));
}

}  // namespace

VocabularyReader::VocabularyReader(const model::LoadedModel& model, bool norm_weight)
    : model_(model),
      plain_cone_(!norm_weight && model.config.norm_placement != formats::NormPlacement::kAfter),
      weights_(ProjectionsOf(model)) {
  ones_ = at::ones({model.config.hidden_size}, at::TensorOptions().dtype(model.dtype).device(model.device));
}

at::Tensor VocabularyReader::ConeInput(const at::Tensor& residual) const {
  if (!plain_cone_) return engine::AttentionInput(residual, weights_, model_.config);
  return engine::RmsNorm(residual, ones_, model_.config.rms_norm_eps);
}

void VocabularyReader::FillTile(int64_t first, int64_t offset, VocabularyRows& rows) const {
  const int64_t count = std::min(kTileRows, rows.cone_norm.size(0) - offset);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), static_cast<int32_t>(first + offset));
  const at::Tensor residual = engine::Embed(model_, ids);
  at::Tensor cone = rows.cone_x.narrow(0, offset, count);
  cone.copy_(ConeInput(residual));
  rows.cone_norm.narrow(0, offset, count).copy_((cone * cone).sum(1).sqrt());
  if (!rows.query.defined()) return;
  if (plain_cone_) {
    rows.x.narrow(0, offset, count).copy_(engine::AttentionInput(residual, weights_, model_.config));
  }
  const engine::HeadRows heads = engine::ProjectHeads(residual, weights_, model_.config);
  rows.query.narrow(0, offset, count).copy_(heads.query);
  rows.key.narrow(0, offset, count).copy_(heads.key);
}

VocabularyRows VocabularyReader::Read(int64_t first, int64_t rows, bool every_part) const {
  const formats::ModelConfig& config = model_.config;
  VocabularyRows read;
  read.cone_x = at::empty({rows, config.hidden_size}, at::kDouble);
  read.cone_norm = at::empty({rows}, at::kDouble);
  if (every_part) {
    read.x = plain_cone_ ? at::empty_like(read.cone_x) : read.cone_x;
    read.query = at::empty({rows, config.query_heads, config.head_dim}, at::kFloat);
    read.key = at::empty({rows, config.kv_heads, config.head_dim}, at::kFloat);
  }
  EachOnOneThread((rows + kTileRows - 1) / kTileRows,
                  [&](int64_t tile) { FillTile(first, tile * kTileRows, read); });
  return read;
}

}  // namespace ropelab::measure
