// SlashProfile: mean and M2 over a block's prompts of every head's mean attention along every sub-diagonal of
// a range; of named heads also maps, and scores under removals.
#include <algorithm>

#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/engine/slash_sums.h"
#include "worker/measure/kinds.h"
#include "worker/measure/prompts.h"
#include "worker/measure/slash_heads.h"
#include "worker/measure/slash_scoring.h"

#include <ATen/Parallel.h>

namespace ropelab::measure {
namespace {

constexpr int64_t kEntriesPerReading = 32768;  // two doubles each: half of what a reading may hold

class Profiler : public engine::Observer {
 public:
  Profiler(const formats::ModelConfig& config, const SlashScoring& scoring, int64_t prompts,
           HeadProfiler& heads, Recorder& recorder)
      : config_(config),
        scoring_(scoring),
        heads_(heads),
        recorder_(recorder),
        total_(static_cast<double>(prompts * config.layers)),
        sums_(config.query_heads, scoring.range),
        moments_(static_cast<size_t>(config.layers)) {}

  absl::Status StartPrompt(int64_t tokens) {
    tokens_ = tokens;
    ++prompts_;
    return heads_.StartPrompt(tokens);
  }

  bool WantsProbabilities(int64_t) override { return true; }
  void Probabilities(const engine::ProbabilityBlock& block) override {
    sums_.Add(block);
    heads_.Probabilities(block);
  }
  void Projected(const engine::ProjectedRows& rows) override { heads_.Projected(rows); }

  absl::Status LayerDone(int64_t layer) override {
    std::vector<double> scores = sums_.Take();
    const int64_t offsets = scoring_.range.offsets();
    for (size_t i = 0; i < scores.size(); ++i) {
      const int64_t offset = scoring_.range.first_offset + static_cast<int64_t>(i) % offsets;
      scores[i] /= static_cast<double>(scoring_.Denominator(tokens_, offset));
    }
    moments_[layer].Add(scores, prompts_);
    const double before = static_cast<double>((prompts_ - 1) * config_.layers + layer);
    ROPELAB_RETURN_IF_ERROR(
        heads_.LayerDone(layer, [&](double share) { return recorder_.Progress(before + share, total_); }));
    return recorder_.Progress(before + 1, total_);
  }

  absl::Status EmitAll();

 private:
  absl::Status EmitPiece(int64_t layer, int64_t first_head, int64_t heads, int64_t skipped, int64_t offsets);

  const formats::ModelConfig& config_;
  const SlashScoring scoring_;
  HeadProfiler& heads_;
  Recorder& recorder_;
  const double total_;
  engine::SlashSums sums_;
  std::vector<SlashMoments> moments_;  // per layer
  int64_t prompts_ = 0;
  int64_t tokens_ = 0;
};

// `skipped`: offsets of the range left out in front.
absl::Status Profiler::EmitPiece(int64_t layer, int64_t first_head, int64_t heads, int64_t skipped,
                                 int64_t offsets) {
  v1::Reading reading;
  v1::SlashBlock& block = *reading.mutable_slash_block();
  block.set_layer(static_cast<int32_t>(layer));
  block.set_first_head(static_cast<int32_t>(first_head));
  block.set_heads(static_cast<int32_t>(heads));
  block.set_first_offset(scoring_.range.first_offset + skipped);
  block.set_offsets(offsets);
  block.set_prompts(prompts_);
  const SlashMoments& moments = moments_[layer];
  for (int64_t head = first_head; head < first_head + heads; ++head) {
    const int64_t begin = head * scoring_.range.offsets() + skipped;
    block.mutable_mean()->Add(moments.mean.begin() + begin, moments.mean.begin() + begin + offsets);
    block.mutable_m2()->Add(moments.m2.begin() + begin, moments.m2.begin() + begin + offsets);
  }
  return recorder_.Emit(std::move(reading), {});
}

absl::Status Profiler::EmitAll() {
  const int64_t offsets = scoring_.range.offsets();
  const int64_t offsets_per_piece = std::min(offsets, kEntriesPerReading);
  const int64_t heads_per_piece = kEntriesPerReading / offsets_per_piece;
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    for (int64_t head = 0; head < config_.query_heads; head += heads_per_piece) {
      const int64_t heads = std::min(heads_per_piece, config_.query_heads - head);
      for (int64_t skipped = 0; skipped < offsets; skipped += offsets_per_piece) {
        ROPELAB_RETURN_IF_ERROR(
            EmitPiece(layer, head, heads, skipped, std::min(offsets_per_piece, offsets - skipped)));
      }
    }
  }
  return heads_.EmitAll(recorder_);
}

}  // namespace

absl::StatusOr<Outcome> MeasureSlashProfile(const v1::SlashProfile& request, const Resources& resources,
                                            Recorder& recorder) {
  const model::LoadedModel& model = *resources.model;
  ROPELAB_ASSIGN_OR_RETURN(const SlashScoring scoring, ReadScoring(request));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<TokenIds> prompts,
                           RealizePrompts(request.prompts(), model.config, resources));
  ROPELAB_RETURN_IF_ERROR(CheckOffsets(scoring, prompts, request.prompts().samples().first_sample()));
  ROPELAB_ASSIGN_OR_RETURN(std::vector<engine::OffsetHead> named, ReadHeads(request, model.config));
  ROPELAB_RETURN_IF_ERROR(CheckHeadWork(request, prompts));
  HeadProfiler heads(model, request, scoring, std::move(named));
  Profiler profiler(model.config, scoring, static_cast<int64_t>(prompts.size()), heads, recorder);
  const engine::ForwardOptions options{.logit_rows = {}, .outputs = false};
  for (const TokenIds& ids : prompts) {
    ROPELAB_RETURN_IF_ERROR(profiler.StartPrompt(static_cast<int64_t>(ids.size())));
    ROPELAB_RETURN_IF_ERROR(engine::Forward(model, ids, options, profiler).status());
  }
  ROPELAB_RETURN_IF_ERROR(profiler.EmitAll());
  return Outcome{FedIdsDigest(prompts)};
}

// What is out of bounds is refused by MeasureSlashProfile with a better word than a size, so it is cut off
// here.
int64_t SlashProfileBytes(const v1::SlashProfile& request, const model::LoadedModel& model) {
  const int64_t tokens = std::clamp<int64_t>(LongestPrompt(request.prompts()), 1, model.config.max_positions);
  const int64_t first = std::clamp<int64_t>(request.first_offset(), 0, tokens - 1);
  const int64_t last = std::clamp<int64_t>(request.last_offset(), first, tokens - 1);
  const int64_t entries = model.config.query_heads * (last - first + 1);
  const int64_t sums = (engine::kStrips + 3) * entries * static_cast<int64_t>(sizeof(double));
  const int64_t moments = 2 * model.config.layers * entries * static_cast<int64_t>(sizeof(double));
  return sums + moments + HeadProfiler::Bytes(request, model, tokens) +
         engine::ForwardBytes(model, tokens, 0, at::get_num_threads());
}

}  // namespace ropelab::measure
