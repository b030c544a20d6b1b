// FrequencyFits: how well the cosines of named heads' mean queries and keys explain their logits.
// EXPERIMENTS.md section 4.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/engine/frequency_fit.h"
#include "worker/measure/frequency_request.h"
#include "worker/measure/kinds.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {
namespace {

class Fitter : public engine::Observer {
 public:
  Fitter(const formats::ModelConfig& config, const v1::FrequencyFits& request,
         std::vector<engine::NamedHead> heads, int64_t prompts, Recorder& recorder)
      : config_(config),
        request_(request),
        recorder_(recorder),
        total_(static_cast<double>(prompts * config.layers)),
        vectors_(config, std::move(heads), /*before_rope=*/false) {}

  void StartPrompt(int64_t tokens) {
    ++prompts_;
    tokens_ = tokens;
    pairs_ = PairsOfPrompt(config_, tokens);
    vectors_.StartPrompt(tokens);
  }

  void Projected(const engine::ProjectedRows& rows) override { vectors_.Projected(rows); }

  absl::Status LayerDone(int64_t layer) override {
    const double before = static_cast<double>((prompts_ - 1) * config_.layers + layer);
    const auto [first, end] = vectors_.HeadsOf(layer);
    for (size_t h = first; h < end; ++h) {
      ROPELAB_RETURN_IF_ERROR(Fit(h));
      const double share = static_cast<double>(h + 1 - first) / static_cast<double>(end - first);
      ROPELAB_RETURN_IF_ERROR(recorder_.Progress(before + share, total_));
    }
    return first < end ? absl::OkStatus() : recorder_.Progress(before + 1, total_);
  }

 private:
  absl::Status Fit(size_t place);

  const formats::ModelConfig& config_;
  const v1::FrequencyFits& request_;
  Recorder& recorder_;
  const double total_;
  engine::FrequencyVectors vectors_;
  FrequencyPairs pairs_;
  int64_t prompts_ = 0, tokens_ = 0;
};

absl::Status Fitter::Fit(size_t place) {
  const v1::MeasuredHead& head = request_.heads(static_cast<int>(place));
  const v1::MeanVectors& means = request_.means(static_cast<int>(place));
  const auto numbers = [](const google::protobuf::RepeatedField<double>& field) {
    return std::span<const double>(field.data(), static_cast<size_t>(field.size()));
  };
  const std::vector<double> explained =
      engine::LagCosines(numbers(means.query()), numbers(means.key()), pairs_.theta,
                         config_.rope_scaling.attention_factor, tokens_);
  const engine::FrequencyVectors::Vectors vectors = vectors_.Rotated(place);
  const engine::FitShares shares = engine::FitHead(vectors.query, vectors.key, explained);
  if (!shares.finite) {
    return absl::FailedPreconditionError(
        absl::StrCat("head ", HeadName(head),
                     ": an attention logit is NaN or infinite; FLOAT32 or BFLOAT16 reach further than "
                     "FLOAT16"));
  }
  v1::Reading reading;
  v1::HeadFit& fit = *reading.mutable_head_fit();
  fit.set_sample(request_.prompts().samples().first_sample() + prompts_ - 1);
  fit.set_layer(head.layer());
  fit.set_head(head.head());
  fit.set_r2(shares.r2);
  fit.set_r2_centred(shares.r2_centred);
  fit.set_eta2(shares.eta2);
  return recorder_.Emit(std::move(reading), {});
}

absl::Status CheckMeans(const v1::FrequencyFits& request, int64_t head_dim) {
  if (request.means_size() != request.heads_size()) {
    return absl::InvalidArgumentError(absl::StrCat("means holds ", request.means_size(), " entries for ",
                                                   request.heads_size(), " heads; give one per head"));
  }
  for (int place = 0; place < request.means_size(); ++place) {
    const std::string name = HeadName(request.heads(place));
    const v1::MeanVectors& means = request.means(place);
    if (means.query_size() != head_dim || means.key_size() != head_dim) {
      return absl::InvalidArgumentError(absl::StrCat("the means of head ", name, " have ", means.query_size(),
                                                     " numbers for the query and ", means.key_size(),
                                                     " for the key; a head of this model has ", head_dim));
    }
    const auto finite = [](double value) { return std::isfinite(value); };
    if (!std::ranges::all_of(means.query(), finite) || !std::ranges::all_of(means.key(), finite)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the means of head ", name, " hold a number that is NaN or infinite"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Outcome> MeasureFrequencyFits(const v1::FrequencyFits& request, const Resources& resources,
                                             Recorder& recorder) {
  const model::LoadedModel& model = *resources.model;
  ROPELAB_ASSIGN_OR_RETURN(std::vector<engine::NamedHead> heads,
                           ReadFrequencyHeads(request.heads(), model.config));
  ROPELAB_RETURN_IF_ERROR(CheckMeans(request, model.config.head_dim));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<TokenIds> prompts,
                           RealizePrompts(request.prompts(), model.config, resources));
  ROPELAB_RETURN_IF_ERROR(CheckOneFrequency(prompts, model.config));
  Fitter fitter(model.config, request, std::move(heads), static_cast<int64_t>(prompts.size()), recorder);
  const engine::ForwardOptions options{.logit_rows = {}, .outputs = false};
  for (const TokenIds& ids : prompts) {
    fitter.StartPrompt(static_cast<int64_t>(ids.size()));
    ROPELAB_RETURN_IF_ERROR(engine::Forward(model, ids, options, fitter).status());
  }
  return Outcome{FedIdsDigest(prompts)};
}

// What is out of bounds is refused by MeasureFrequencyFits with a better word than a size, so it is cut off
// here.
int64_t FrequencyFitsBytes(const v1::FrequencyFits& request, const model::LoadedModel& model) {
  const int64_t tokens = std::clamp<int64_t>(LongestPrompt(request.prompts()), 1, model.config.max_positions);
  const int threads = at::get_num_threads();
  const auto heads = ReadFrequencyHeads(request.heads(), model.config);
  const int64_t forward = engine::ForwardBytes(model, tokens, 0, threads);
  if (!heads.ok()) return forward;
  return forward + engine::FitBytes(tokens, threads) +
         engine::FrequencyVectors::Bytes(model.config, *heads, tokens, /*before_rope=*/false);
}

}  // namespace ropelab::measure
