// NeedleAttention: where every head looks when a needle is asked for, sample by sample. EXPERIMENTS.md
// section 7.
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/measure/kinds.h"
#include "worker/measure/needle_scores.h"

namespace ropelab::measure {
namespace {

absl::Status OfSample(const RealisedNeedle& needle, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("sample ", needle.facts.sample(), ": ", std::string(status.message())));
}

// What is fed to the model of one sample, which fits.
absl::StatusOr<ForcedAnswer> FedOf(const RealisedNeedle& needle, const NeedleMetrics& metrics,
                                   const formats::Tokenizer& tokenizer) {
  if (metrics.copies()) return ForceAnswer(needle, tokenizer);
  return ForcedAnswer{needle.ids, static_cast<int64_t>(needle.ids.size()), {}};
}

}  // namespace

absl::StatusOr<Outcome> MeasureNeedleAttention(const v1::NeedleAttention& request, const Resources& resources,
                                               Recorder& recorder) {
  const model::LoadedModel& model = *resources.model;
  ROPELAB_ASSIGN_OR_RETURN(const NeedleMetrics metrics, ReadNeedleMetrics(request));
  if (!request.prompts().has_needle()) {
    return absl::InvalidArgumentError("needle_attention.prompts holds no needle; its prompts are needles");
  }
  ROPELAB_RETURN_IF_ERROR(CheckSamples(request.prompts().samples()));
  ROPELAB_ASSIGN_OR_RETURN(
      const std::vector<RealisedNeedle> needles,
      RealiseNeedles(request.prompts().needle(), request.prompts().samples(), resources));
  // Every sample is looked at before the first pass costs anything.
  std::vector<ForcedAnswer> fed;
  std::vector<TokenIds> ids;
  for (size_t s = 0; s < needles.size(); ++s) {
    const RealisedNeedle& needle = needles[s];
    ROPELAB_RETURN_IF_ERROR(CheckFits(request.prompts().needle().samples(static_cast<int>(s)), needle));
    absl::StatusOr<ForcedAnswer> forced = FedOf(needle, metrics, *resources.tokenizer);
    ROPELAB_RETURN_IF_ERROR(OfSample(needle, forced.status()));
    ROPELAB_RETURN_IF_ERROR(OfSample(needle, engine::CheckPrompt(forced->ids, model.config)));
    ids.push_back(forced->ids);
    fed.push_back(*std::move(forced));
  }
  double done = 0;
  const auto total = static_cast<double>(needles.size()) * static_cast<double>(model.config.layers);
  for (size_t s = 0; s < needles.size(); ++s) {
    absl::StatusOr<v1::NeedleHeads> heads =
        ScoreNeedle(model, needles[s], fed[s], metrics, [&] { return recorder.Progress(++done, total); });
    ROPELAB_RETURN_IF_ERROR(OfSample(needles[s], heads.status()));
    v1::Reading reading;
    *reading.mutable_needle_heads() = *std::move(heads);
    ROPELAB_RETURN_IF_ERROR(recorder.Emit(std::move(reading), {}));
  }
  return Outcome{FedIdsDigest(ids)};
}

// An answer is a space and the code; a token is a byte or more. What is out of bounds is refused by
// MeasureNeedleAttention with a better word than a size, so it is cut off here.
int64_t NeedleAttentionBytes(const v1::NeedleAttention& request, const model::LoadedModel& model) {
  constexpr int64_t kMostBytes = 4;  // of a character in UTF-8
  const int64_t most = model.config.max_positions;
  const int64_t prompt = std::clamp<int64_t>(LongestPrompt(request.prompts()), 1, most);
  const auto metrics = ReadNeedleMetrics(request);
  const int64_t length = std::clamp<int64_t>(request.prompts().needle().code_length(), 0, most);
  const int64_t answer = metrics.ok() && metrics->copies() ? kMostBytes * (length + 1) : 0;
  return ScoreNeedleBytes(model, std::min(prompt + answer, most), answer, at::get_num_threads());
}

}  // namespace ropelab::measure
