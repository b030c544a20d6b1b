#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/cost.h"
#include "server/experiments/prompt_cost.h"
#include "server/experiments/prompts.h"
#include "server/experiments/slash_detection.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kBytesPerRow = 96;  // of slash_scores, as stored

}  // namespace

v1::Estimate SlashDetectionExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  const v1::SlashDetection& detection = spec.slash_detection();
  const PromptShape shape = ShapeOf(detection.prompts()).value_or(PromptShape());
  const int64_t blocks = BlockCount(shape.count);
  const int64_t seeds = spec.seeds_size();
  v1::Estimate estimate;
  double flops = 0;
  std::set<std::string> tokenizers;
  for (const ModelFacts& model : facts.models) {
    const int64_t heads = model.config.layers() * model.config.query_heads();
    const double forward = PromptsForwardFlops(detection.prompts(), model);
    flops += AddPromptStages(detection.prompts(), seeds, model, tokenizers, estimate);
    for (const MeasuredRange& range : MeasuredRanges(detection)) {
      estimate.set_tasks(estimate.tasks() + blocks * seeds);
      const int64_t cells = heads * (range.last - range.first + 1);
      estimate.set_reading_bytes(estimate.reading_bytes() + blocks * seeds * cells * 2 * 8);
      flops += static_cast<double>(seeds) * forward;
    }
    const int64_t mapped = detection.maps().heads().list().head_size();
    const int64_t side = std::min(detection.maps().size(), shape.longest);
    const int64_t numbers = mapped * (side * side + shape.longest);
    estimate.set_reading_bytes(estimate.reading_bytes() + blocks * seeds * numbers * 8);
    estimate.set_result_bytes(estimate.result_bytes() +
                              seeds * (numbers * 8 + mapped * shape.longest * kBytesPerRow));
    const int64_t offsets = detection.offsets().last() - detection.offsets().first() + 1;
    estimate.set_result_bytes(estimate.result_bytes() + seeds * heads * (offsets + 1) * kBytesPerRow);
  }
  SetDeviceSeconds(flops, estimate);
  if (IsFoundLater(detection.maps().heads())) {
    estimate.set_basis(
        absl::StrCat(estimate.basis(), "; maps of heads that are still to be found are not counted"));
  }
  AddPromptBasis(detection.prompts(), estimate);
  return estimate;
}

}  // namespace ropelab::experiments
