// FrequencyProfile: what each RoPE pair contributes to the logits of named heads, and the heads' mean queries
// and keys. EXPERIMENTS.md section 4.
#include <ATen/Parallel.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/measure/frequency_request.h"
#include "worker/measure/frequency_sums.h"
#include "worker/measure/kinds.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {
namespace {

class Profiler : public engine::Observer {
 public:
  Profiler(const formats::ModelConfig& config, const v1::FrequencyProfile& request,
           std::vector<engine::NamedHead> heads, int64_t prompts, Recorder& recorder)
      : config_(config),
        recorder_(recorder),
        total_(static_cast<double>(prompts * config.layers)),
        vectors_(config, std::move(heads), /*before_rope=*/true) {
    sums_.reserve(static_cast<size_t>(request.heads_size()));
    for (int place = 0; place < request.heads_size(); ++place) {
      sums_.emplace_back(request, place, config.head_dim);
    }
  }

  void StartPrompt(int64_t tokens) {
    ++prompts_;
    pairs_ = PairsOfPrompt(config_, tokens);
    vectors_.StartPrompt(tokens);
  }

  void Projected(const engine::ProjectedRows& rows) override { vectors_.Projected(rows); }

  absl::Status LayerDone(int64_t layer) override {
    const double before = static_cast<double>((prompts_ - 1) * config_.layers + layer);
    const auto [first, end] = vectors_.HeadsOf(layer);
    for (size_t h = first; h < end; ++h) {
      ROPELAB_RETURN_IF_ERROR(sums_[h].Add(vectors_.BeforeRope(h), vectors_.Rotated(h), pairs_));
      const double share = static_cast<double>(h + 1 - first) / static_cast<double>(end - first);
      ROPELAB_RETURN_IF_ERROR(recorder_.Progress(before + share, total_));
    }
    return first < end ? absl::OkStatus() : recorder_.Progress(before + 1, total_);
  }

  absl::Status EmitAll() const {
    for (const FrequencySums& sums : sums_) {
      ROPELAB_RETURN_IF_ERROR(sums.Emit(config_.rope_scaling.attention_factor, recorder_));
    }
    return absl::OkStatus();
  }

 private:
  const formats::ModelConfig& config_;
  Recorder& recorder_;
  const double total_;
  engine::FrequencyVectors vectors_;
  std::vector<FrequencySums> sums_;
  FrequencyPairs pairs_;
  int64_t prompts_ = 0;
};

// Every head's offset has a counted row, and every heat map's row is there, in a prompt of `tokens`.
absl::Status CheckPromptLength(const v1::FrequencyProfile& request, int64_t sample, int64_t tokens) {
  for (const v1::MeasuredHead& head : request.heads()) {
    if (!head.has_offset() || (head.offset() >= 0 && head.offset() < tokens - request.skip_first())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "head ", HeadName(head), " has offset ", head.offset(), ", and no row counts for it in the ", tokens,
        " tokens of sample ", sample, ", of which the first ", request.skip_first(),
        " are left out; offsets are 0 to ", tokens - request.skip_first() - 1));
  }
  if (!request.rows().empty() && request.rows(request.rows_size() - 1) >= tokens) {
    return absl::InvalidArgumentError(absl::StrCat("rows holds ", request.rows(request.rows_size() - 1),
                                                   ", and sample ", sample, " has ", tokens,
                                                   " tokens: rows are 0 to ", tokens - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckRows(const v1::FrequencyProfile& request) {
  if (request.skip_first() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("skip_first is ", request.skip_first(), "; it is a count of positions, 0 or more"));
  }
  int64_t before = -1;
  for (const int64_t row : request.rows()) {
    if (row <= before || row >= kLongestHeatRow) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rows holds ", row, ": rows of heat maps ascend within 0 to ", kLongestHeatRow - 1, ", each once"));
    }
    before = row;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Outcome> MeasureFrequencyProfile(const v1::FrequencyProfile& request,
                                                const Resources& resources, Recorder& recorder) {
  const model::LoadedModel& model = *resources.model;
  ROPELAB_ASSIGN_OR_RETURN(std::vector<engine::NamedHead> heads,
                           ReadFrequencyHeads(request.heads(), model.config));
  ROPELAB_RETURN_IF_ERROR(CheckRows(request));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<TokenIds> prompts,
                           RealizePrompts(request.prompts(), model.config, resources));
  ROPELAB_RETURN_IF_ERROR(CheckOneFrequency(prompts, model.config));
  int64_t sample = request.prompts().samples().first_sample();
  for (const TokenIds& ids : prompts) {
    ROPELAB_RETURN_IF_ERROR(CheckPromptLength(request, sample++, static_cast<int64_t>(ids.size())));
  }
  Profiler profiler(model.config, request, std::move(heads), static_cast<int64_t>(prompts.size()), recorder);
  const engine::ForwardOptions options{.logit_rows = {}, .outputs = false};
  for (const TokenIds& ids : prompts) {
    profiler.StartPrompt(static_cast<int64_t>(ids.size()));
    ROPELAB_RETURN_IF_ERROR(engine::Forward(model, ids, options, profiler).status());
  }
  ROPELAB_RETURN_IF_ERROR(profiler.EmitAll());
  return Outcome{FedIdsDigest(prompts)};
}

// What is out of bounds is refused by MeasureFrequencyProfile with a better word than a size, so it is cut
// off here.
int64_t FrequencyProfileBytes(const v1::FrequencyProfile& request, const model::LoadedModel& model) {
  const int64_t tokens = std::clamp<int64_t>(LongestPrompt(request.prompts()), 1, model.config.max_positions);
  const int threads = at::get_num_threads();
  const auto heads = ReadFrequencyHeads(request.heads(), model.config);
  if (!heads.ok()) return engine::ForwardBytes(model, tokens, 0, threads);
  const int64_t sums = request.heads_size() * FrequencySums::Bytes(request, model.config.head_dim, tokens);
  const int64_t rows = threads * tokens * static_cast<int64_t>(sizeof(double));
  return sums + rows + engine::FrequencyVectors::Bytes(model.config, *heads, tokens, /*before_rope=*/true) +
         engine::ForwardBytes(model, tokens, 0, threads);
}

}  // namespace ropelab::measure
