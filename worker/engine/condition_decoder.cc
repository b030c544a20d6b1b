#include "worker/engine/condition_decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/engine/layer_ops.h"
#include "worker/engine/layer_steps.h"
#include "worker/model/int8_weights.h"

namespace ropelab::engine {
namespace {

using model::LayerWeights;

constexpr std::array kBeforeAttention = {
    &LayerWeights::attention_norm, &LayerWeights::query,      &LayerWeights::key,
    &LayerWeights::value,          &LayerWeights::query_bias, &LayerWeights::key_bias,
    &LayerWeights::value_bias,     &LayerWeights::query_norm, &LayerWeights::key_norm,
    &LayerWeights::query_scale,    &LayerWeights::key_scale,  &LayerWeights::value_scale};
constexpr std::array kAfterAttention = {
    &LayerWeights::output,     &LayerWeights::output_bias,  &LayerWeights::attention_out_norm,
    &LayerWeights::mlp_norm,   &LayerWeights::gate,         &LayerWeights::up,
    &LayerWeights::gate_bias,  &LayerWeights::up_bias,      &LayerWeights::down,
    &LayerWeights::down_bias,  &LayerWeights::mlp_out_norm, &LayerWeights::output_scale,
    &LayerWeights::gate_scale, &LayerWeights::up_scale,     &LayerWeights::down_scale};

// Whether two layers share the tensors of one half.
template <typename Members>
bool Share(const LayerWeights& a, const LayerWeights& b, const Members& members) {
  return std::ranges::all_of(members, [&](const auto member) {
    const at::Tensor &left = a.*member, &right = b.*member;
    return left.defined() ? left.is_same(right) : !right.defined();
  });
}

// ForProducts of an edited layer, with the ready tensors of the model's own layer wherever it shares them.
LayerWeights ReadyLike(const LayerWeights& edited, const LayerWeights& own, const LayerWeights& own_ready,
                       at::ScalarType type) {
  LayerWeights mixed = edited;
  for (const model::ScaledProjection& projection : model::kScaledProjections) {
    if (!(edited.*projection.weight).is_same(own.*projection.weight)) continue;
    mixed.*projection.weight = own_ready.*projection.weight;
    mixed.*projection.scale = at::Tensor();
  }
  return ForProducts(mixed, type);
}

at::Tensor Indices(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(at::ArrayRef<int64_t>(values), at::kLong).to(device);
}

}  // namespace

DecodeWeights::DecodeWeights(const model::LoadedModel& model) {
  const at::NoGradGuard no_gradients;
  const at::ScalarType type = ProductType(model.dtype, model.device);
  for (const LayerWeights& layer : model.weights.layers) layers.push_back(ForProducts(layer, type));
  lm_head = model.weights.lm_head.to(type);
}

ConditionDecoder::ConditionDecoder(const model::LoadedModel& model, const DecodeWeights& weights,
                                   std::vector<DecodedCondition> conditions, int64_t tokens, int64_t capacity,
                                   int64_t rows)
    : model_(model),
      weights_(weights),
      conditions_(std::move(conditions)),
      tokens_(tokens),
      rows_(rows),
      rotary_(RotaryTable::OfDecoding(model.config, tokens + capacity, model.device)) {
  const at::NoGradGuard no_gradients;
  for (int64_t layer = 0; layer < model.config.layers; ++layer)
    layers_.push_back(MakeLayer(layer, tokens, capacity));
}

ConditionDecoder::Layer ConditionDecoder::MakeLayer(int64_t layer, int64_t tokens, int64_t capacity) const {
  const LayerWeights& own = model_.weights.layers[layer];
  std::vector<const LayerWeights*> of_row;
  std::vector<AttendedRow> rows(rows_);
  for (int64_t row = 0; row < rows_; ++row) {
    of_row.push_back(&own);
    if (row >= static_cast<int64_t>(conditions_.size())) continue;
    const DecodedCondition& condition = conditions_[row];
    rows[row].prompt = condition.prompt[layer];
    if (const LayerEdits* edits = EditsOf(row, layer); edits != nullptr)
      rows[row].own_heads = edits->own_heads();
    if (condition.edited_layers == nullptr) continue;
    const auto edited = condition.edited_layers->find(layer);
    if (edited != condition.edited_layers->end()) of_row.back() = &edited->second;
  }
  // Rows without a condition go with the first one: what they hold counts for nothing.
  for (int64_t row = std::ssize(conditions_); row < rows_; ++row) of_row[row] = of_row[0];
  const at::ScalarType type = ProductType(model_.dtype, model_.device);
  const auto split = [&](const auto& members) {
    std::vector<Variant> variants;
    std::vector<const LayerWeights*> originals;
    for (int64_t row = 0; row < rows_; ++row) {
      const auto same = std::ranges::find_if(
          originals, [&](const LayerWeights* other) { return Share(*other, *of_row[row], members); });
      if (same != originals.end()) {
        variants[same - originals.begin()].rows.push_back(row);
        continue;
      }
      originals.push_back(of_row[row]);
      variants.push_back({ReadyLike(*of_row[row], own, weights_.layers[layer], type), {row}});
    }
    return variants;
  };
  return {split(kBeforeAttention), split(kAfterAttention),
          RowAttention(std::move(rows), model_.config, tokens, capacity, model_.device)};
}

const LayerEdits* ConditionDecoder::EditsOf(int64_t row, int64_t layer) const {
  if (row >= std::ssize(conditions_)) return nullptr;
  const auto edits = conditions_[row].edits->find(layer);
  return edits == conditions_[row].edits->end() ? nullptr : &edits->second;
}

absl::Status ConditionDecoder::Attend(int64_t index, const at::Tensor& residual,
                                      const std::vector<bool>& live, at::Tensor& heads) {
  const formats::ModelConfig& config = model_.config;
  const int64_t position = tokens_ + fed_;
  Layer& layer = layers_[index];
  const auto wide = at::TensorOptions().dtype(at::kFloat).device(model_.device);
  const at::Tensor queries = at::zeros({rows_, config.query_heads, config.head_dim}, wide);
  const at::Tensor keys = at::zeros({rows_, config.kv_heads, config.head_dim}, wide);
  const at::Tensor values = at::zeros_like(keys);
  std::vector<at::Tensor> own_keys(rows_);
  for (const Variant& variant : layer.projections) {
    const auto each = [&](const auto& apply) {
      for (const int64_t row : variant.rows) {
        if (const LayerEdits* edits = EditsOf(row, index); edits != nullptr) apply(row, *edits);
      }
    };
    const HeadRows raw = RawHeads(residual, variant.weights, config);
    each([&](int64_t row, const LayerEdits& edits) {
      edits.AtProjection(raw.query.narrow(0, row, 1), raw.key.narrow(0, row, 1), position);
    });
    const HeadRows normed = NormedHeads(raw, variant.weights, config);
    each([&](int64_t row, const LayerEdits& edits) {
      edits.BeforeRope(normed.query.narrow(0, row, 1), normed.key.narrow(0, row, 1), position);
    });
    const at::Tensor query_rot = RoundedTo(model_.dtype, rotary_.RotateAt(normed.query, position));
    const at::Tensor key_rot = RoundedTo(model_.dtype, rotary_.RotateAt(normed.key, position));
    each([&](int64_t row, const LayerEdits& edits) {
      own_keys[row] = edits.AfterRope(normed.query.narrow(0, row, 1), normed.key.narrow(0, row, 1),
                                      query_rot.narrow(0, row, 1), key_rot.narrow(0, row, 1), position);
    });
    const at::Tensor rows = Indices(variant.rows, model_.device);
    queries.index_copy_(0, rows, query_rot.index_select(0, rows));
    keys.index_copy_(0, rows, key_rot.index_select(0, rows));
    values.index_copy_(0, rows, normed.value.index_select(0, rows));
  }
  layer.attention.Store(fed_, keys, values, own_keys);
  bool finite = true;
  heads = layer.attention.Attend(queries, fed_, RuleOf(config, index), live, finite);
  if (!finite) {
    return absl::FailedPreconditionError(absl::StrCat(
        "layer ", index, ", position ", position, ": an attention logit is NaN or infinite; the ",
        "checkpoint's weights do not compute in this dtype (FLOAT32 or BFLOAT16 reach further than ",
        "FLOAT16)"));
  }
  for (int64_t row = 0; row < rows_; ++row) {
    if (const LayerEdits* edits = EditsOf(row, index); edits != nullptr)
      edits->AtOutput(heads.narrow(0, row, 1), position);
  }
  return absl::OkStatus();
}

void ConditionDecoder::Finish(int64_t index, at::Tensor& residual, const at::Tensor& heads) const {
  const std::vector<Variant>& variants = layers_[index].finishes;
  if (variants.size() == 1) {
    FinishLayer(residual, heads, variants[0].weights, model_.config);
    return;
  }
  const at::Tensor before = residual.clone();
  for (const Variant& variant : variants) {
    at::Tensor after = before.clone();
    FinishLayer(after, heads, variant.weights, model_.config);
    const at::Tensor rows = Indices(variant.rows, model_.device);
    residual.index_copy_(0, rows, after.index_select(0, rows));
  }
}

absl::StatusOr<at::Tensor> ConditionDecoder::Step(std::span<const int32_t> ids,
                                                  const std::vector<bool>& live) {
  const at::NoGradGuard no_gradients;
  at::Tensor residual = Embed(model_, ids);
  for (int64_t layer = 0; layer < model_.config.layers; ++layer) {
    at::Tensor heads;
    if (const absl::Status status = Attend(layer, residual, live, heads); !status.ok()) return status;
    Finish(layer, residual, heads);
  }
  ++fed_;
  return OutputLogits(residual, model_.weights.final_norm, weights_.lm_head, model_.config);
}

int64_t ConditionDecoder::Bytes(const model::LoadedModel& model, int64_t tokens, int64_t capacity) {
  const formats::ModelConfig& c = model.config;
  const int64_t wide = sizeof(float);
  const int64_t step = kDecodeRows * wide *
                       (8 * c.hidden_size + 6 * c.intermediate_size +
                        10 * (c.query_heads + 2 * c.kv_heads) * c.head_dim + 3 * c.vocabulary);
  const int64_t tables = 2 * (tokens + capacity) * c.head_dim * wide;
  // Where products need wider operands: the model once, and each row's edited projections.
  const bool widens =
      ProductType(model.dtype, model.device) != model.dtype || model::WidenedBytes(model.weights) > 0;
  const int64_t projections =
      kDecodeRows * c.layers * c.hidden_size * (c.query_heads + 2 * c.kv_heads) * c.head_dim * wide;
  const int64_t widened = (ProductType(model.dtype, model.device) != model.dtype ? 2 * model.bytes : 0) +
                          c.layers * model::WidenedBytes(model.weights) + (widens ? projections : 0);
  return c.layers * RowAttention::Bytes(c, kDecodeRows, capacity) + step + tables + widened;
}

}  // namespace ropelab::engine
