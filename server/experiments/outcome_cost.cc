#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/experiments/cost.h"
#include "server/experiments/needles.h"
#include "server/experiments/outcome.h"
#include "server/experiments/outcome_controls.h"
#include "server/experiments/outcome_fields.h"
#include "server/experiments/prompt_cost.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kBytesPerLoss = 24;
constexpr int64_t kBytesPerUtility = 9;
constexpr int64_t kBytesPerRow = 110;  // of a result table, as stored

// The number of heads that a set asks for, as far as it is known before it is found.
int64_t AskedHeads(const v1::HeadSet& set) {
  if (set.has_list()) {
    return set.list().head_size();
  }
  if (set.has_retrieval() && set.retrieval().choice_case() == v1::RetrievalHeads::kTop) {
    return set.retrieval().top();
  }
  if (set.has_imported() && set.imported().choice_case() == v1::ImportedHeads::kTop) {
    return set.imported().top();
  }
  return set.slash_dominant().has_top() ? set.slash_dominant().top() : 1;
}

// No set has more than its model.
int64_t KnownHeads(const v1::HeadSet& set, const Facts& facts) {
  int64_t most = 1;
  for (const ModelFacts& model : facts.models) {
    most = std::max(most, model.config.layers() * model.config.query_heads());
  }
  return std::min(AskedHeads(set), most);
}

// What to ask for less of where there are too many conditions.
std::string ManifoldField(const OutcomeFields& fields) {
  const size_t shares = fields.shares.size(), coverages = fields.coverages.size();
  const char* field = fields.per_head()          ? ".heads"
                      : shares > 1               ? ".dims_shares"
                      : coverages > 1            ? ".coverages"
                      : !fields.controls.empty() ? ".controls"
                                                 : ".random_dims.draws";
  return absl::StrCat(fields.kind, field);
}

}  // namespace

int64_t OutcomeTasksPerBlock(int64_t conditions) {
  return 1 + (conditions - 1 + kConditionsPerTask - 1) / kConditionsPerTask;
}

double NeedleFlops(const v1::Needles& needles, const ModelFacts& model) {
  const double per_length =
      static_cast<double>(needles.depths_size()) * static_cast<double>(needles.samples_per_cell());
  double flops = 0;
  for (const int64_t length : needles.context_lengths()) {
    const double answer =
        2 * static_cast<double>(model.config.parameters()) * static_cast<double>(kAnswerTokens);
    flops += per_length * (ForwardFlops(model, length) + answer);
  }
  return flops;
}

int64_t MostOutcomeConditions(const v1::ExperimentSpec& spec, int64_t heads) {
  const OutcomeFields fields = FieldsOf(spec);
  int64_t per_point = fields.knockout() ? 1 : 0;
  for (const v1::PatchCondition::Value condition : fields.conditions) {
    per_point += condition == v1::PatchCondition::RANDOM_DIMS             ? fields.random_dims.draws()
                 : condition == v1::PatchCondition::LAYER_MATCHED_CONTROL ? 0
                                                                          : 1;
  }
  for (const v1::ControlHeads& control : fields.controls) {
    per_point += DrawsOf(control);
  }
  int64_t points = fields.per_head() ? heads : 1;
  points *= std::max<int64_t>(1, static_cast<int64_t>(fields.shares.size()));
  points *= std::max<int64_t>(1, static_cast<int64_t>(fields.coverages.size()));
  return 1 + points * per_point;
}

void CheckOutcomeSizes(const v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) {
  const OutcomeFields fields = FieldsOf(spec);
  const int64_t conditions = MostOutcomeConditions(spec, KnownHeads(*fields.heads, facts));
  const int64_t groups = int64_t{spec.models_size()} * spec.seeds_size();
  const int64_t needles = NeedleCount(*fields.needles);
  int64_t blocks = BlockCount(needles);
  if (fields.perplexity != nullptr) {
    blocks += BlockCount(ShapeOf(*fields.perplexity).value_or(PromptShape()).count);
  }
  if (conditions > kMostOutcomeConditions) {
    problems.Add(ManifoldField(fields), absl::StrCat(conditions, " conditions"),
                 absl::StrCat("with every draw and every point of a sweep; at most ", kMostOutcomeConditions,
                              ": fewer draws, conditions, points or heads"));
  } else if (groups * conditions * needles > kMostOutcomeRows) {
    problems.Add(absl::StrCat(fields.kind, ".needles.samples_per_cell"), absl::StrCat(needles, " samples"),
                 absl::StrCat("under ", conditions, " conditions for ", groups, " models and seeds give ",
                              groups * conditions * needles, " answers; at most ", kMostOutcomeRows,
                              ": fewer samples, draws, conditions or seeds"));
  } else if (groups * blocks * OutcomeTasksPerBlock(conditions) > kMostOutcomeTasks) {
    problems.Add(absl::StrCat(fields.kind, ".perplexity.prompts"), absl::StrCat(blocks, " blocks of prompts"),
                 absl::StrCat("make ", groups * blocks * OutcomeTasksPerBlock(conditions), " tasks; at most ",
                              kMostOutcomeTasks, ": fewer prompts, draws, conditions or seeds"));
  }
}

v1::Estimate OutcomeExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  const OutcomeFields fields = FieldsOf(spec);
  const int64_t conditions = MostOutcomeConditions(spec, KnownHeads(*fields.heads, facts));
  const int64_t seeds = spec.seeds_size(), needles = NeedleCount(*fields.needles);
  v1::Estimate estimate;
  double flops = 0;
  std::set<std::string> tokenizers;
  for (const ModelFacts& model : facts.models) {
    int64_t tasks = seeds * BlockCount(needles) * OutcomeTasksPerBlock(conditions);
    int64_t bytes = seeds * needles * conditions * kBytesPerAnswer;
    flops += static_cast<double>(seeds * conditions) * NeedleFlops(*fields.needles, model);
    if (fields.NeedsUtilities()) {
      tasks += 1;
      bytes +=
          model.config.layers() * model.config.query_heads() * model.config.head_dim() * kBytesPerUtility;
    }
    if (fields.perplexity != nullptr) {
      const int64_t prompts = ShapeOf(*fields.perplexity).value_or(PromptShape()).count;
      flops += AddPromptStages(*fields.perplexity, seeds, model, tokenizers, estimate);
      flops += static_cast<double>(seeds * conditions) * PromptsForwardFlops(*fields.perplexity, model);
      tasks += seeds * BlockCount(prompts) * OutcomeTasksPerBlock(conditions);
      bytes += seeds * prompts * conditions * kBytesPerLoss;
    }
    estimate.set_tasks(estimate.tasks() + tasks);
    estimate.set_reading_bytes(estimate.reading_bytes() + bytes);
    estimate.set_result_bytes(estimate.result_bytes() + seeds * conditions * (needles + 8) * kBytesPerRow);
  }
  AddNeedleStage(*fields.needles, seeds, facts.models, estimate);
  SetDeviceSeconds(flops, estimate);
  estimate.set_basis(absl::StrCat(
      estimate.basis(), "; ", conditions,
      " conditions as whole passes, though layers below the first edited one are computed once a task"));
  if (IsFoundLater(*fields.heads)) {
    estimate.set_basis(absl::StrCat(
        estimate.basis(), fields.per_head() ? "; as if one head were found" : "; as if heads were found"));
  }
  if (fields.perplexity != nullptr) {
    AddPromptBasis(*fields.perplexity, estimate);
  }
  return estimate;
}

}  // namespace ropelab::experiments
