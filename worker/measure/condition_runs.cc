#include "worker/measure/condition_runs.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace ropelab::measure {

// Takes the losses of a pass that runs to the end, or keeps what enters the layer before which it ends.
class ConditionRuns::Watch : public engine::Observer {
 public:
  Watch(ConditionRuns& runs, const TokenIds& ids, int64_t end) : runs_(runs), ids_(ids), end_(end) {}

  void Hidden(int64_t layer, const at::Tensor& hidden) override {
    if (layer != end_) return;
    if (end_ == runs_.model_.config.layers) {
      loss_ = runs_.losses_.Summed(hidden, ids_);
    } else {
      kept_ = hidden.clone();
    }
  }
  absl::Status LayerDone(int64_t) override {
    ++runs_.done_;
    return runs_.Progress();
  }
  const absl::StatusOr<double>& loss() const { return loss_; }
  const at::Tensor& kept() const { return kept_; }

 private:
  ConditionRuns& runs_;
  const TokenIds& ids_;
  const int64_t end_;
  absl::StatusOr<double> loss_ = absl::InternalError("a pass did not reach the last layer's output");
  at::Tensor kept_;
};

ConditionRuns::ConditionRuns(const model::LoadedModel& model, const std::vector<TokenIds>& prompts,
                             int64_t first_sample, const std::vector<ReadEdits>& edits, Recorder& recorder)
    : model_(model),
      prompts_(prompts),
      first_sample_(first_sample),
      edits_(edits),
      recorder_(recorder),
      losses_(model),
      residuals_(prompts.size()) {
  const int64_t layers = model.config.layers;
  int64_t highest = 0, count = 0;  // layers that one prompt goes through
  for (const ReadEdits& condition : edits) {
    const int64_t first = FirstEditedLayer(condition, model.config);
    highest = std::max(highest, first);
    count += layers - first;
  }
  total_ = static_cast<double>((count + highest) * static_cast<int64_t>(prompts.size()));
}

absl::Status ConditionRuns::Named(const absl::Status& status, size_t prompt, const std::string& what) const {
  return absl::Status(status.code(), absl::StrCat("sample ", first_sample_ + static_cast<int64_t>(prompt),
                                                  ", ", what, ": ", status.message()));
}

engine::ForwardOptions ConditionRuns::FromHere(size_t prompt) const {
  engine::ForwardOptions options;
  if (layer_ > 0) options.start = engine::LayerInput{layer_, residuals_[prompt]};
  return options;
}

absl::StatusOr<engine::EditedLayers> ConditionRuns::MakeEdits(const engine::LowRanks& ranks) {
  engine::EditedLayers edited;
  for (const auto& [matrix, rank] : ranks) {
    if (edited.contains(matrix.layer)) continue;
    edited[matrix.layer] = engine::LowRankLayer(model_, matrix.layer, ranks);
    ROPELAB_RETURN_IF_ERROR(Progress());
  }
  return edited;
}

absl::Status ConditionRuns::CarryTo(int64_t layer) {
  if (layer == layer_) return absl::OkStatus();
  for (size_t p = 0; p < prompts_.size(); ++p) {
    engine::ForwardOptions options = FromHere(p);
    options.end_layer = layer;
    Watch watch(*this, prompts_[p], layer);
    const absl::Status status = engine::Forward(model_, prompts_[p], options, watch).status();
    if (!status.ok()) return Named(status, p, "without edits");
    residuals_[p] = watch.kept();
  }
  layer_ = layer;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> ConditionRuns::LossesUnder(const engine::EditedLayers& edited,
                                                               size_t condition) {
  std::vector<double> losses;
  for (size_t p = 0; p < prompts_.size(); ++p) {
    engine::ForwardOptions options = FromHere(p);
    options.edited_layers = &edited;
    options.head_edits = &edits_[condition].heads;
    Watch watch(*this, prompts_[p], model_.config.layers);
    absl::Status status = engine::Forward(model_, prompts_[p], options, watch).status();
    if (status.ok()) status = watch.loss().status();
    if (!status.ok()) return Named(status, p, absl::StrCat("condition ", condition));
    losses.push_back(*watch.loss());
  }
  return losses;
}

absl::StatusOr<std::vector<std::vector<double>>> ConditionRuns::Run() {
  const int64_t layers = model_.config.layers;
  std::map<int64_t, std::vector<size_t>> by_first_layer;
  for (size_t c = 0; c < edits_.size(); ++c)
    by_first_layer[FirstEditedLayer(edits_[c], model_.config)].push_back(c);
  std::vector<std::vector<double>> losses(edits_.size());
  for (const auto& [layer, conditions] : by_first_layer) {
    if (layer == layers) {  // the model as it is, once for all that ask for it
      ROPELAB_ASSIGN_OR_RETURN(losses[conditions[0]], LossesUnder({}, conditions[0]));
      for (const size_t c : conditions) losses[c] = losses[conditions[0]];
      continue;
    }
    ROPELAB_RETURN_IF_ERROR(CarryTo(layer));
    for (const size_t c : conditions) {
      ROPELAB_ASSIGN_OR_RETURN(const engine::EditedLayers edited, MakeEdits(edits_[c].ranks));
      ROPELAB_ASSIGN_OR_RETURN(losses[c], LossesUnder(edited, c));
    }
  }
  return losses;
}

int64_t ConditionRuns::Bytes(const model::LoadedModel& model, int64_t prompts, int64_t tokens,
                             const std::vector<ReadEdits>& edits, int threads) {
  int64_t edited = 0, own_keys = 0;
  bool kept = false;
  for (const ReadEdits& condition : edits) {
    edited = std::max(edited, engine::LowRankBytes(model, condition.ranks, threads));
    own_keys = std::max(own_keys, engine::OwnKeyBytes(condition.heads, model.config, tokens));
    const int64_t first = FirstEditedLayer(condition, model.config);
    kept |= first > 0 && first < model.config.layers;
  }
  // While a pass carries a residual on, it holds the prompt's old one and the new one.
  const int64_t residuals = kept ? (prompts + 1) * tokens * model.config.hidden_size *
                                       static_cast<int64_t>(c10::elementSize(model.dtype))
                                 : 0;
  return edited + own_keys + residuals + engine::TokenLosses::Bytes(model, tokens, threads) +
         engine::ForwardBytes(model, tokens, 0, threads);
}

}  // namespace ropelab::measure
