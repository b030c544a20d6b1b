#include "worker/engine/decoder.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/attention.h"
#include "worker/engine/layer_edits.h"
#include "worker/engine/layer_ops.h"
#include "worker/engine/layer_steps.h"
#include "worker/engine/rope.h"
#include "worker/model/int8_weights.h"

namespace ropelab::engine {
namespace {

// Everything that lives as long as one prompt. Allocated once.
class Run {
 public:
  Run(const model::LoadedModel& model, std::span<const int32_t> ids, const ForwardOptions& options,
      Observer& observer)
      : model_(model),
        config_(model.config),
        options_(options),
        observer_(observer),
        tokens_(static_cast<int64_t>(ids.size())),
        first_layer_(options.start ? options.start->layer : 0),
        end_layer_(options.end_layer.value_or(config_.layers)),
        rotary_(RotaryTable::OfPrompt(config_, tokens_, model.device)),
        attention_({tokens_, config_.query_heads, config_.kv_heads, config_.head_dim, options.block_rows},
                   model.device) {
    const auto wide = at::TensorOptions().dtype(at::kFloat).device(model.device);
    queries_ = at::empty({tokens_, config_.query_heads, config_.head_dim}, wide);
    keys_ = at::empty({config_.kv_heads, config_.head_dim, tokens_}, wide);
    values_ = at::empty({config_.kv_heads, tokens_, config_.head_dim}, wide);
    if (options.head_edits != nullptr) {
      edits_ = ReadyEdits(*options.head_edits, config_, formats::InverseFrequencies(config_, tokens_),
                          model.dtype, model.device);
    }
    hidden_ = options.start ? options.start->residual.clone() : Embed(model, ids);
  }

  absl::StatusOr<at::Tensor> Go() {
    for (int64_t layer = first_layer_; layer < end_layer_; ++layer) {
      observer_.Hidden(layer, hidden_);
      ROPELAB_RETURN_IF_ERROR(RunLayer(layer));
      ROPELAB_RETURN_IF_ERROR(observer_.LayerDone(layer));
    }
    if (options_.outputs || end_layer_ < config_.layers) observer_.Hidden(end_layer_, hidden_);
    return Logits();
  }

 private:
  absl::Status RunLayer(int64_t layer);
  const model::LayerWeights& WeightsOf(int64_t layer) const;
  const LayerEdits* EditsOf(int64_t layer) const;
  void PrepareOwnKeys(const LayerEdits* edits);
  void ProjectRows(int64_t layer, const model::LayerWeights& weights, int64_t first, int64_t rows);
  at::Tensor Logits() const;
  void ForEachChunk(const std::function<void(int64_t first, int64_t rows)>& work) const;

  const model::LoadedModel& model_;
  const formats::ModelConfig& config_;
  const ForwardOptions& options_;
  Observer& observer_;
  const int64_t tokens_;
  const int64_t first_layer_, end_layer_;
  EditsByLayer edits_;
  RotaryTable rotary_;
  Attention attention_;
  OwnKeys own_keys_;    // of the layer in hand
  at::Tensor queries_;  // [N, H, D] fp32; after attention the heads' outputs
  at::Tensor keys_;     // [G, D, N] fp32
  at::Tensor values_;   // [G, N, D] fp32
  at::Tensor hidden_;   // [N, d]
};

void Run::ForEachChunk(const std::function<void(int64_t first, int64_t rows)>& work) const {
  const int64_t chunks = (tokens_ + kRowChunk - 1) / kRowChunk;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      work(chunk * kRowChunk, std::min(kRowChunk, tokens_ - chunk * kRowChunk));
    }
  };
  if (model_.device.is_cpu()) {
    at::parallel_for(0, chunks, 1, run);
  } else {
    run(0, chunks);
  }
}

void Run::ProjectRows(int64_t layer, const model::LayerWeights& weights, int64_t first, int64_t rows) {
  const LayerEdits* edits = EditsOf(layer);
  HeadRows raw = RawHeads(hidden_.narrow(0, first, rows), weights, config_);
  if (edits != nullptr) edits->AtProjection(raw.query, raw.key, first);
  const auto [query, key, value] = NormedHeads(raw, weights, config_);
  raw = {};
  if (edits != nullptr) edits->BeforeRope(query, key, first);
  const at::Tensor query_rot = RoundedTo(model_.dtype, rotary_.Rotate(query, first));
  const at::Tensor key_rot = RoundedTo(model_.dtype, rotary_.Rotate(key, first));
  at::Tensor own_keys;
  if (edits != nullptr) own_keys = edits->AfterRope(query, key, query_rot, key_rot, first);
  if (own_keys.defined()) own_keys_.keys.narrow(2, first, rows).copy_(own_keys.permute({1, 2, 0}));
  queries_.narrow(0, first, rows).copy_(query_rot);
  keys_.narrow(2, first, rows).copy_(key_rot.permute({1, 2, 0}));
  values_.narrow(1, first, rows).copy_(value.transpose(0, 1));
  observer_.Projected({layer, first, query, key, query_rot, key_rot, value, own_keys});
}

const LayerEdits* Run::EditsOf(int64_t layer) const {
  const auto edits = edits_.find(layer);
  return edits == edits_.end() ? nullptr : &edits->second;
}

void Run::PrepareOwnKeys(const LayerEdits* edits) {
  own_keys_ = {};
  if (edits == nullptr || edits->own_heads().empty()) return;
  own_keys_.heads = edits->own_heads();
  own_keys_.from = edits->own_from();
  own_keys_.keys = at::empty({static_cast<int64_t>(own_keys_.heads.size()), config_.head_dim, tokens_},
                             queries_.options());
}

const model::LayerWeights& Run::WeightsOf(int64_t layer) const {
  if (options_.edited_layers != nullptr) {
    const auto edited = options_.edited_layers->find(layer);
    if (edited != options_.edited_layers->end()) return edited->second;
  }
  return model_.weights.layers[layer];
}

absl::Status Run::RunLayer(int64_t layer) {
  const bool outputs = options_.outputs || layer + 1 < config_.layers;
  const bool observed = observer_.WantsProbabilities(layer);
  const model::LayerWeights weights = ForProducts(WeightsOf(layer), ProductType(model_.dtype, model_.device));
  const LayerEdits* edits = EditsOf(layer);
  PrepareOwnKeys(edits);
  ForEachChunk([&](int64_t first, int64_t rows) { ProjectRows(layer, weights, first, rows); });
  if (!outputs && !observed) return absl::OkStatus();
  const OwnKeys* own = own_keys_.heads.empty() ? nullptr : &own_keys_;
  if (!attention_.Run({layer, RuleOf(config_, layer), observed ? &observer_ : nullptr, outputs, own},
                      queries_, keys_, values_)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "layer ", layer, ": an attention logit is NaN or infinite; the checkpoint's weights do not ",
        "compute in this dtype (FLOAT32 or BFLOAT16 reach further than FLOAT16)"));
  }
  if (!outputs) return absl::OkStatus();
  ForEachChunk([&](int64_t first, int64_t rows) {
    at::Tensor residual = hidden_.narrow(0, first, rows);
    if (edits != nullptr) edits->AtOutput(queries_.narrow(0, first, rows), first);
    FinishLayer(residual, queries_.narrow(0, first, rows), weights, config_);
  });
  return absl::OkStatus();
}

at::Tensor Run::Logits() const {
  if (!options_.outputs || end_layer_ < config_.layers || options_.logit_rows.empty())
    return at::empty({0, config_.vocabulary}, at::kFloat);
  const at::Tensor rows = at::tensor(at::ArrayRef<int64_t>(options_.logit_rows), at::kLong).to(model_.device);
  return OutputLogits(hidden_.index_select(0, rows), model_.weights.final_norm, model_.weights.lm_head,
                      config_);
}

absl::Status CheckReach(const model::LoadedModel& model, int64_t tokens, const ForwardOptions& options) {
  const int64_t layers = model.config.layers, end = options.end_layer.value_or(layers);
  if (end < 1 || end > layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pass that ends before layer ", end, ": the model has ", layers, " layers"));
  }
  if (!options.start) return absl::OkStatus();
  if (options.start->layer < 0 || options.start->layer >= end) {
    return absl::InvalidArgumentError(absl::StrCat("a pass from layer ", options.start->layer,
                                                   " that ends before layer ", end,
                                                   ": it starts at 0 or later and before its end"));
  }
  const at::Tensor& residual = options.start->residual;
  const bool fits = residual.defined() && residual.dim() == 2 && residual.size(0) == tokens &&
                    residual.size(1) == model.config.hidden_size && residual.scalar_type() == model.dtype;
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the residual that enters layer ", options.start->layer,
                                                 " is not [", tokens, ", ", model.config.hidden_size,
                                                 "] in the activations' dtype"));
}

}  // namespace

absl::Status CheckPrompt(std::span<const int32_t> ids, const formats::ModelConfig& config) {
  if (ids.empty()) return absl::InvalidArgumentError("the prompt has no tokens; give at least one id");
  if (static_cast<int64_t>(ids.size()) > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("the prompt has ", ids.size(),
                                                   " tokens, the model takes at most ", config.max_positions,
                                                   " (its max_position_embeddings)"));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= config.vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat("token id ", ids[i], " at position ", i,
                                                     " is outside the vocabulary: ids are 0..",
                                                     config.vocabulary - 1));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<at::Tensor> Forward(const model::LoadedModel& model, std::span<const int32_t> ids,
                                   const ForwardOptions& options, Observer& observer) {
  ROPELAB_RETURN_IF_ERROR(CheckPrompt(ids, model.config));
  ROPELAB_RETURN_IF_ERROR(CheckReach(model, static_cast<int64_t>(ids.size()), options));
  if (options.head_edits != nullptr) {
    ROPELAB_RETURN_IF_ERROR(CheckEdits(*options.head_edits, model.config));
  }
  at::NoGradGuard no_gradients;
  return Run(model, ids, options, observer).Go();
}

int64_t ForwardBytes(const model::LoadedModel& model, int64_t tokens, int64_t logit_rows, int threads) {
  const formats::ModelConfig& c = model.config;
  const int64_t wide = sizeof(float);
  const int64_t kept = tokens * (c.hidden_size + (c.query_heads + 2 * c.kv_heads) * c.head_dim) * wide +
                       2 * tokens * c.head_dim * wide;  // with both rotary tables, made on the CPU first
  // Rows that are between two steps of a layer at once, with a norm's intermediates.
  const int64_t chunk = std::min(tokens, kRowChunk * threads) * wide *
                        (6 * c.hidden_size + 4 * c.intermediate_size + 8 * c.query_heads * c.head_dim);
  const int64_t scratch =
      Attention::ScratchBytes({tokens, c.query_heads, c.kv_heads, c.head_dim, kBlockRows}, threads);
  const int64_t logits = logit_rows * (3 * c.vocabulary + 6 * c.hidden_size) * wide;
  const int64_t widened =
      ProductType(model.dtype, model.device) == model.dtype
          ? 0
          : wide * (2 * c.hidden_size * (c.query_heads + c.kv_heads) * c.head_dim +
                    3 * c.hidden_size * c.intermediate_size + c.vocabulary * c.hidden_size);
  return kept + chunk + scratch + logits + widened + model::WidenedBytes(model.weights);
}

}  // namespace ropelab::engine
