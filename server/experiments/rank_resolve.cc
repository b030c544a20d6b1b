#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/experiments/prompts.h"
#include "server/experiments/rank_analysis.h"

namespace ropelab::experiments {
namespace {

constexpr double kDefaultEnergy = 0.95;  // the slash paper, section 4.2
constexpr int64_t kLargestBlock = 4096;
constexpr int64_t kMostRows = int64_t{1} << 24;  // of all tables together
constexpr int64_t kMostTasks = 1000000;

std::string At(const char* field) {
  return absl::StrCat("rank_analysis.", field);
}

void ResolveFigures(v1::RankAnalysis& analysis, Problems& problems) {
  if (!analysis.has_energy()) {
    analysis.set_energy(kDefaultEnergy);
  } else if (!(analysis.energy() > 0 && analysis.energy() <= 1)) {
    problems.Add(At("energy"), absl::StrCat(analysis.energy()),
                 "a share of the squared singular values is above 0 and at most 1");
  }
  if (!analysis.has_hidden_stage()) {
    analysis.set_hidden_stage(v1::HiddenStage::NORMED);
  }
  if (!analysis.has_vocabulary()) {
    analysis.set_vocabulary(true);
  }
  if (!analysis.vocabulary() && analysis.has_norm_weight()) {
    problems.Add(At("norm_weight"), analysis.norm_weight() ? "true" : "false",
                 "is of the cone over the vocabulary, and vocabulary is false; leave norm_weight out, or say "
                 "vocabulary: true");
  } else if (analysis.vocabulary() && !analysis.has_norm_weight()) {
    analysis.set_norm_weight(true);
  }
}

void CheckViewBytes(const v1::RankAnalysis& analysis, const Facts& facts, Problems& problems) {
  const std::vector<NamedHead> heads = ListedHeads(analysis.heads());
  for (const ModelFacts& model : facts.models) {
    const int64_t bytes = ViewBytes(model.config, analysis.block(), heads);
    if (bytes > kMostViewBytes) {
      problems.Add(
          At("block"), absl::StrCat(analysis.block()),
          absl::StrCat("rows of ", heads.size(), " heads of model ", model.name, " take ", bytes >> 20,
                       " MiB; at most ", kMostViewBytes >> 20, " MiB: fewer rows or heads"));
    }
  }
}

void ResolveViews(v1::RankAnalysis& analysis, const Facts& facts, Problems& problems) {
  if (!analysis.has_block()) {
    if (analysis.has_hidden_view()) {
      // Harmless, so it is not refused; what moves no result stands in no resolved spec.
      problems.Warn(absl::StrCat(At("hidden_view"), " ", v1::HiddenView::Value_Name(analysis.hidden_view()),
                                 " changes nothing: no rows are kept for a view; say how many, block: 64"));
      analysis.clear_hidden_view();
    }
    return;
  }
  if (!analysis.has_hidden_view()) {
    analysis.set_hidden_view(v1::HiddenView::FIRST_COORDINATES);
  }
  if (analysis.block() < 1 || analysis.block() > kLargestBlock) {
    problems.Add(At("block"), absl::StrCat(analysis.block()),
                 absl::StrCat("a view has 1 to ", kLargestBlock, " rows"));
    return;
  }
  const std::optional<PromptShape> shape = ShapeOf(analysis.prompts());
  if (shape.has_value() && shape->count > 0 && analysis.block() > TokensOf(analysis.prompts(), 0)) {
    problems.Add(At("block"), absl::StrCat(analysis.block()),
                 absl::StrCat("at most ", TokensOf(analysis.prompts(), 0),
                              ": a view shows the first prompt, which has no more tokens"));
  }
  CheckViewBytes(analysis, facts, problems);
}

void CheckSizes(const v1::ExperimentSpec& spec, int64_t prompts, const Facts& facts, Problems& problems) {
  const bool vocabulary = spec.rank_analysis().vocabulary();
  int64_t rows = 0, tasks = 0;
  for (const ModelFacts& model : facts.models) {
    const int64_t heads = model.config.query_heads(), layers = model.config.layers();
    const int64_t per_seed = layers * (6 * heads + 1) + (vocabulary ? 4 * heads : 0);
    rows += spec.seeds_size() * per_seed + (vocabulary ? 2 * heads * kCosineBins : 0);
    tasks += 1 + spec.seeds_size() * (BlockCount(prompts) + (vocabulary ? 1 : 0));
  }
  if (rows > kMostRows) {
    problems.Add("seeds", absl::StrCat(spec.seeds_size(), " seeds"),
                 absl::StrCat("of ", facts.models.size(), " models give ", rows, " rows of results; at most ",
                              kMostRows, ": fewer seeds or models"));
  }
  if (tasks > kMostTasks) {
    problems.Add(
        At("prompts"), absl::StrCat(prompts, " prompts"),
        absl::StrCat("make ", tasks, " tasks; at most ", kMostTasks, ": fewer prompts, seeds or models"));
  }
}

}  // namespace

void RankAnalysisExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const {
  v1::RankAnalysis& analysis = *spec.mutable_rank_analysis();
  ResolveHeadSet(analysis.heads(), At("heads"), facts, problems);
  ResolvePrompts(*analysis.mutable_prompts(), At("prompts"), spec, facts, problems);
  ResolveFigures(analysis, problems);
  ResolveViews(analysis, facts, problems);
  const std::optional<PromptShape> shape = ShapeOf(analysis.prompts());
  if (problems.empty() && shape.has_value()) {
    CheckSizes(spec, shape->count, facts, problems);
  }
}

}  // namespace ropelab::experiments
