// QueryKeyProfile: per prompt and layer the spectra of every head's queries and keys and of the hidden state,
// and how their norms vary; of sample 0 also views of named heads.
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/measure/kinds.h"
#include "worker/measure/prompts.h"
#include "worker/measure/query_key_heads.h"
#include "worker/measure/query_key_hidden.h"
#include "worker/measure/query_key_views.h"

namespace ropelab::measure {
namespace {

class Profiler : public engine::Observer {
 public:
  Profiler(const model::LoadedModel& model, const v1::QueryKeyProfile& request, int64_t prompts,
           Recorder& recorder)
      : model_(model),
        request_(request),
        recorder_(recorder),
        total_(static_cast<double>(prompts * model.config.layers)),
        views_(request, model.config) {}

  void StartPrompt(int64_t tokens) {
    const formats::ModelConfig& config = model_.config;
    ++prompts_;
    if (query_.defined() && query_.size(0) == tokens) return;
    query_ = key_ = at::Tensor();  // before the new ones are made
    query_ = at::empty({tokens, config.query_heads, config.head_dim}, at::kFloat);
    key_ = at::empty({tokens, config.kv_heads, config.head_dim}, at::kFloat);
  }

  // For disjoint rows, so that no lock is needed.
  void Projected(const engine::ProjectedRows& rows) override {
    query_.narrow(0, rows.first_row, rows.query_pre.size(0)).copy_(rows.query_pre);
    key_.narrow(0, rows.first_row, rows.key_pre.size(0)).copy_(rows.key_pre);
  }

  // A copy: the residual changes before LayerDone.
  void Hidden(int64_t layer, const at::Tensor& residual) override {
    if (layer == model_.config.layers) return;
    hidden_ = HiddenAt(request_.hidden_stage(), layer, residual, model_);
  }

  absl::Status LayerDone(int64_t layer) override;

 private:
  const model::LoadedModel& model_;
  const v1::QueryKeyProfile& request_;
  Recorder& recorder_;
  const double total_;
  QueryKeyViews views_;
  at::Tensor query_, key_;  // [N, H, D], [N, G, D]
  at::Tensor hidden_;       // [N, d]
  int64_t prompts_ = 0;
};

absl::Status Profiler::LayerDone(int64_t layer) {
  const int64_t sample = request_.prompts().samples().first_sample() + prompts_ - 1;
  absl::StatusOr<v1::LayerSpectra> spectra = SpectraOfLayer(query_, key_, hidden_, request_.energy());
  if (!spectra.ok()) {
    return absl::Status(spectra.status().code(),
                        absl::StrCat("sample ", sample, ", layer ", layer, ": ", spectra.status().message()));
  }
  const bool viewed = prompts_ == 1 && views_.Wanted();
  if (viewed) views_.AddLayer(layer, query_, key_, hidden_);
  hidden_ = at::Tensor();
  spectra->set_sample(sample);
  spectra->set_layer(static_cast<int32_t>(layer));
  v1::Reading reading;
  *reading.mutable_layer_spectra() = *std::move(spectra);
  ROPELAB_RETURN_IF_ERROR(recorder_.Emit(std::move(reading), {}));
  if (viewed && layer + 1 == model_.config.layers) ROPELAB_RETURN_IF_ERROR(views_.Emit(recorder_));
  return recorder_.Progress(static_cast<double>((prompts_ - 1) * model_.config.layers + layer + 1), total_);
}

absl::Status CheckRequest(const v1::QueryKeyProfile& request, const formats::ModelConfig& config) {
  if (!(request.energy() > 0 && request.energy() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("query_key_profile.energy is ", request.energy(),
                                                   "; it is a share, above 0 and at most 1"));
  }
  if (request.hidden_stage() != v1::HiddenStage::NORMED &&
      request.hidden_stage() != v1::HiddenStage::RESIDUAL) {
    return absl::InvalidArgumentError(absl::StrCat("query_key_profile.hidden_stage is ",
                                                   request.hidden_stage(), "; it is NORMED or RESIDUAL"));
  }
  return CheckViews(request, config);
}

}  // namespace

absl::StatusOr<Outcome> MeasureQueryKeyProfile(const v1::QueryKeyProfile& request, const Resources& resources,
                                               Recorder& recorder) {
  const model::LoadedModel& model = *resources.model;
  ROPELAB_RETURN_IF_ERROR(CheckRequest(request, model.config));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<TokenIds> prompts,
                           RealizePrompts(request.prompts(), model.config, resources));
  Profiler profiler(model, request, static_cast<int64_t>(prompts.size()), recorder);
  const engine::ForwardOptions options{.logit_rows = {}, .outputs = false};
  for (const TokenIds& ids : prompts) {
    profiler.StartPrompt(static_cast<int64_t>(ids.size()));
    ROPELAB_RETURN_IF_ERROR(engine::Forward(model, ids, options, profiler).status());
  }
  return Outcome{FedIdsDigest(prompts)};
}

// What is out of bounds is refused by MeasureQueryKeyProfile with a better word than a size, so it is cut off
// here.
int64_t QueryKeyProfileBytes(const v1::QueryKeyProfile& request, const model::LoadedModel& model) {
  const formats::ModelConfig& config = model.config;
  const int64_t tokens = std::clamp<int64_t>(LongestPrompt(request.prompts()), 1, config.max_positions);
  const int threads = at::get_num_threads();
  const int64_t kept = tokens * ((config.query_heads + config.kv_heads) * config.head_dim *
                                     static_cast<int64_t>(sizeof(float)) +
                                 config.hidden_size * static_cast<int64_t>(c10::elementSize(model.dtype)));
  return kept + LayerSpectraBytes(tokens, config.hidden_size, config.head_dim, threads) +
         QueryKeyViews::Bytes(request, config, tokens) + engine::ForwardBytes(model, tokens, 0, threads);
}

}  // namespace ropelab::measure
