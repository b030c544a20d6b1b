#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/cost.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/needles.h"
#include "server/experiments/outcome.h"
#include "server/experiments/prompt_cost.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kBytesPerLoss = 24;  // a sum in double, and where it belongs
constexpr int64_t kBytesPerRow = 96;   // of a result table, as stored

}  // namespace

v1::Estimate LowRankExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  const v1::LowRank& low_rank = spec.low_rank();
  const v1::PromptSource& prompts = low_rank.perplexity().prompts();
  const PromptShape shape = ShapeOf(prompts).value_or(PromptShape());
  const int64_t seeds = spec.seeds_size(), conditions = MostConditions(low_rank);
  v1::Estimate estimate;
  double flops = 0;
  std::set<std::string> tokenizers;
  for (const ModelFacts& model : facts.models) {
    const double forward = PromptsForwardFlops(prompts, model);
    flops += AddPromptStages(prompts, seeds, model, tokenizers, estimate);
    int64_t tasks = BlockCount(shape.count) * seeds;
    int64_t bytes = seeds * shape.count * conditions * kBytesPerLoss;
    flops += static_cast<double>(seeds * conditions) * forward;
    if (low_rank.has_needles()) {
      const int64_t samples = NeedleCount(low_rank.needles());
      tasks += seeds * BlockCount(samples) * OutcomeTasksPerBlock(conditions);
      bytes += seeds * samples * conditions * kBytesPerAnswer;
      flops += static_cast<double>(seeds * conditions) * NeedleFlops(low_rank.needles(), model);
    }
    estimate.set_tasks(estimate.tasks() + tasks);
    estimate.set_reading_bytes(estimate.reading_bytes() + bytes);
    estimate.set_result_bytes(estimate.result_bytes() + 2 * seeds * conditions * kBytesPerRow);
  }
  if (low_rank.has_needles()) {
    AddNeedleStage(low_rank.needles(), seeds, facts.models, estimate);
    estimate.set_result_bytes(estimate.result_bytes() + static_cast<int64_t>(facts.models.size()) * seeds *
                                                            conditions * NeedleCount(low_rank.needles()) *
                                                            kBytesPerRow);
  }
  SetDeviceSeconds(flops, estimate);
  estimate.set_basis(absl::StrCat(
      estimate.basis(), "; ", conditions,
      " conditions as whole passes, though layers below the first edited one are computed once"));
  if (IsFoundLater(low_rank.heads())) {
    estimate.set_basis(absl::StrCat(estimate.basis(), "; as if heads were found"));
  }
  AddPromptBasis(prompts, estimate);
  return estimate;
}

}  // namespace ropelab::experiments
