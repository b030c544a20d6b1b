// SlashProfile: mean and M2 over a block's prompts of every head's mean attention along every sub-diagonal of
// a range.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/engine/slash_sums.h"
#include "worker/measure/kinds.h"
#include "worker/measure/prompts.h"

#include <ATen/Parallel.h>

namespace ropelab::measure {
namespace {

constexpr int64_t kEntriesPerReading = 32768;  // two doubles each: half of what a reading may hold

// Welford's running moments of one layer, [heads * offsets].
struct Moments {
  std::vector<double> mean, m2;
  void Add(const std::vector<double>& values, int64_t n) {
    mean.resize(values.size());
    m2.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const double delta = values[i] - mean[i];
      mean[i] += delta / static_cast<double>(n);
      m2[i] += delta * (values[i] - mean[i]);
    }
  }
};

struct Scoring {
  engine::SlashRange range;
  bool definition = false;  // divide by N - offset

  // How many rows the mean at `offset` divides by, for a prompt of n tokens; 0 or less: no row counts.
  int64_t Denominator(int64_t n, int64_t offset) const {
    if (definition) return n - offset;
    return n - range.skip_first - (range.common_rows ? range.last_offset : offset);
  }
};

absl::StatusOr<Scoring> ReadScoring(const v1::SlashProfile& request) {
  Scoring scoring;
  scoring.range = {request.first_offset(), request.last_offset(), request.skip_first(),
                   request.rows() == v1::Rows::COMMON};
  scoring.definition = request.denominator() == v1::Denominator::DEFINITION;
  if (request.first_offset() < 0 || request.last_offset() < request.first_offset()) {
    return absl::InvalidArgumentError(absl::StrCat("offsets ", request.first_offset(), "..",
                                                   request.last_offset(),
                                                   " are no range: 0 <= first <= last"));
  }
  if (request.skip_first() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("skip_first is ", request.skip_first(), "; it cannot be negative"));
  }
  if (scoring.range.common_rows && scoring.definition) {
    return absl::InvalidArgumentError(
        "rows COMMON and denominator DEFINITION do not go together; choose KEPT");
  }
  return scoring;
}

// Every offset must leave a row to average over in every prompt.
absl::Status CheckOffsets(const Scoring& scoring, const std::vector<TokenIds>& prompts,
                          int64_t first_sample) {
  for (size_t s = 0; s < prompts.size(); ++s) {
    const int64_t n = static_cast<int64_t>(prompts[s].size());
    if (scoring.Denominator(n, scoring.range.last_offset) < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("sample ", first_sample + static_cast<int64_t>(s), " has ", n, " tokens: offset ",
                       scoring.range.last_offset, " with skip_first ", scoring.range.skip_first,
                       " leaves no row to average; the largest offset is ",
                       scoring.definition ? n - 1 : n - 1 - scoring.range.skip_first));
    }
  }
  return absl::OkStatus();
}

class Profiler : public engine::Observer {
 public:
  Profiler(const formats::ModelConfig& config, const Scoring& scoring, int64_t prompts, Recorder& recorder)
      : config_(config),
        scoring_(scoring),
        recorder_(recorder),
        total_(static_cast<double>(prompts * config.layers)),
        sums_(config.query_heads, scoring.range),
        moments_(static_cast<size_t>(config.layers)) {}

  void StartPrompt(int64_t tokens) {
    tokens_ = tokens;
    ++prompts_;
  }

  bool WantsProbabilities(int64_t) override { return true; }
  void Probabilities(const engine::ProbabilityBlock& block) override { sums_.Add(block); }

  absl::Status LayerDone(int64_t layer) override {
    std::vector<double> scores = sums_.Take();
    const int64_t offsets = scoring_.range.offsets();
    for (size_t i = 0; i < scores.size(); ++i) {
      const int64_t offset = scoring_.range.first_offset + static_cast<int64_t>(i) % offsets;
      scores[i] /= static_cast<double>(scoring_.Denominator(tokens_, offset));
    }
    moments_[layer].Add(scores, prompts_);
    return recorder_.Progress(static_cast<double>((prompts_ - 1) * config_.layers + layer + 1), total_);
  }

  absl::Status EmitAll();

 private:
  absl::Status EmitPiece(int64_t layer, int64_t first_head, int64_t heads, int64_t skipped, int64_t offsets);

  const formats::ModelConfig& config_;
  const Scoring scoring_;
  Recorder& recorder_;
  const double total_;
  engine::SlashSums sums_;
  std::vector<Moments> moments_;  // per layer
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
  const Moments& moments = moments_[layer];
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
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Outcome> MeasureSlashProfile(const v1::SlashProfile& request, const Resources& resources,
                                            Recorder& recorder) {
  const model::LoadedModel& model = *resources.model;
  ROPELAB_ASSIGN_OR_RETURN(const Scoring scoring, ReadScoring(request));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<TokenIds> prompts,
                           RealizePrompts(request.prompts(), model.config, resources));
  ROPELAB_RETURN_IF_ERROR(CheckOffsets(scoring, prompts, request.prompts().samples().first_sample()));
  Profiler profiler(model.config, scoring, static_cast<int64_t>(prompts.size()), recorder);
  const engine::ForwardOptions options{.logit_rows = {}, .outputs = false};
  for (const TokenIds& ids : prompts) {
    profiler.StartPrompt(static_cast<int64_t>(ids.size()));
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
  return sums + moments + engine::ForwardBytes(model, tokens, 0, at::get_num_threads());
}

}  // namespace ropelab::measure
