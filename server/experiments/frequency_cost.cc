#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/cost.h"
#include "server/experiments/frequency_analysis.h"
#include "server/experiments/frequency_groups.h"
#include "server/experiments/prompt_cost.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kBytesPerRow = 96;  // of a result table, as stored

std::vector<NamedHead> ListedHeads(const v1::FrequencyAnalysis& analysis) {
  std::vector<NamedHead> heads;
  for (const v1::Head& head : analysis.heads().list().head()) {
    heads.push_back({head.layer(), head.head(),
                     head.has_offset() ? std::optional<int64_t>(head.offset()) : std::nullopt});
  }
  return heads;
}

// All passes over one prompt. Per head and entry the profile takes every pair's product and its absolute
// value, the fit the logit; a removal scores all query heads of a named head's KV group.
double PromptFlops(const v1::FrequencyAnalysis& analysis, const ModelFacts& model, int64_t tokens) {
  const v1::ModelConfig& config = model.config;
  const double n = static_cast<double>(tokens);
  const double per_head = n * n * static_cast<double>(config.head_dim());
  const double heads = static_cast<double>(analysis.heads().list().head_size());
  const double lists = static_cast<double>(RemovalsOf(analysis, config.head_dim() / 2).lists.size());
  const double in_group = static_cast<double>(config.query_heads() / config.kv_heads());
  const double passes = lists > 0 ? 3 : 2;
  return passes * ForwardFlops(model, tokens) + heads * per_head * (3 + lists * in_group);
}

void AddBytes(const v1::ExperimentSpec& spec, const PromptShape& shape, const v1::ModelConfig& config,
              v1::Estimate& estimate) {
  const v1::FrequencyAnalysis& analysis = spec.frequency_analysis();
  const std::vector<NamedHead> listed = ListedHeads(analysis);
  const int64_t pairs = config.head_dim() / 2, heads = static_cast<int64_t>(listed.size());
  const RemovalPlan plan = RemovalsOf(analysis, pairs);
  const int64_t heat = HeatBytes(pairs, HeatRowsOf(analysis, shape, listed), heads);
  const int64_t lists = static_cast<int64_t>(plan.lists.size());
  const int64_t blocks = BlockCount(shape.count);
  const int64_t per_block = heat + heads * (8 * pairs + 3 * lists) * 8;
  const int64_t rows =
      heads * (pairs + 1 + static_cast<int64_t>(plan.removals.size())) + (heads + 1) * (shape.longest + 6);
  estimate.set_reading_bytes(estimate.reading_bytes() +
                             spec.seeds_size() * (blocks * per_block + shape.count * heads * 32));
  estimate.set_result_bytes(estimate.result_bytes() + spec.seeds_size() * (rows * kBytesPerRow + heat));
}

}  // namespace

v1::Estimate FrequencyAnalysisExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  const v1::FrequencyAnalysis& analysis = spec.frequency_analysis();
  const PromptShape shape = ShapeOf(analysis.prompts()).value_or(PromptShape());
  const int64_t seeds = spec.seeds_size(), kinds = analysis.removals().empty() ? 2 : 3;
  v1::Estimate estimate;
  double flops = 0;
  std::set<std::string> tokenizers;
  for (const ModelFacts& model : facts.models) {
    flops += AddPromptStages(analysis.prompts(), seeds, model, tokenizers, estimate);
    const double prompts = PromptsFlops(analysis.prompts(),
                                        [&](int64_t tokens) { return PromptFlops(analysis, model, tokens); });
    flops += static_cast<double>(seeds) * prompts;
    estimate.set_tasks(estimate.tasks() + seeds * kinds * BlockCount(shape.count));
    AddBytes(spec, shape, model.config, estimate);
  }
  SetDeviceSeconds(flops, estimate);
  std::string basis = absl::StrCat(estimate.basis(), "; ", kinds, " passes, and the named heads' products");
  if (IsFoundLater(analysis.heads())) {
    absl::StrAppend(&basis, "; as if a head were found: what each adds is not counted");
  }
  estimate.set_basis(basis);
  AddPromptBasis(analysis.prompts(), estimate);
  return estimate;
}

}  // namespace ropelab::experiments
