#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/low_rank_edit.h"
#include "server/experiments/needles.h"
#include "server/experiments/outcome.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kMostTasks = 1000000;
constexpr int64_t kMostRows = int64_t{1} << 24;

std::string At(const char* field) {
  return absl::StrCat("low_rank.", field);
}

void ResolveRanks(v1::LowRank& low_rank, const Facts& facts, Problems& problems) {
  if (low_rank.ranks_size() == 0) {
    problems.Add(At("ranks"), "", "say the ranks to try, [1, 2, 4]");
  }
  std::set<int64_t> ranks;
  for (int i = 0; i < low_rank.ranks_size(); ++i) {
    const std::string path = absl::StrCat(At("ranks"), "[", i, "]");
    CheckRank(low_rank.ranks(i), path, facts, problems);
    if (!ranks.insert(low_rank.ranks(i)).second) {
      problems.Add(path, absl::StrCat(low_rank.ranks(i)), "stands there twice; name each rank once");
    }
  }
  low_rank.mutable_ranks()->Assign(ranks.begin(), ranks.end());  // their order moves nothing
}

void WarnOfLargeFactors(const v1::LowRank& low_rank, const Facts& facts, Problems& problems) {
  for (const ModelFacts& model : facts.models) {
    const int64_t d = model.config.hidden_size(), head_dim = model.config.head_dim();
    const int64_t most = d * head_dim / (d + head_dim);
    const int64_t largest = *std::max_element(low_rank.ranks().begin(), low_rank.ranks().end());
    if (largest > most) {
      problems.Warn(absl::StrCat(At("ranks"), ": above rank ", most, " the two factors of a ", d, " x ",
                                 head_dim, " projection of model ", model.name,
                                 " hold more parameters than it has, so saved_parameters is negative"));
    }
  }
}

void ResolvePerplexity(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) {
  v1::LowRank& low_rank = *spec.mutable_low_rank();
  const std::string path = At("perplexity.prompts");
  v1::PromptSource& prompts = *low_rank.mutable_perplexity()->mutable_prompts();
  ResolvePrompts(prompts, path, spec, facts, problems);
  const std::optional<PromptShape> shape = ShapeOf(prompts);
  if (shape.has_value() && shape->shortest < 2 && KnowsTokens(prompts)) {
    problems.Add(path, absl::StrCat(shape->shortest, " token"),
                 "a prompt of one token has nothing to predict; every prompt needs 2 or more");
  }
}

// As a knockout's: 50 a context length.
void ResolveLowRankNeedles(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) {
  v1::Needles& needles = *spec.mutable_low_rank()->mutable_needles();
  NeedleDefaults defaults;
  defaults.context_lengths = {1024, 2048, 4096};
  const int64_t depths =
      needles.depths_size() > 0 ? needles.depths_size() : static_cast<int64_t>(defaults.depths.size());
  defaults.samples_per_cell = (50 + depths - 1) / depths;
  ResolveNeedles(needles, At("needles"), defaults, spec, facts, problems);
}

void CheckSizes(const v1::ExperimentSpec& spec, const PromptShape& shape, Problems& problems) {
  const int64_t conditions = MostConditions(spec.low_rank());
  const int64_t groups = int64_t{spec.models_size()} * spec.seeds_size();
  if (conditions > kMostConditions) {
    problems.Add(At("ranks"), absl::StrCat(spec.low_rank().ranks_size(), " ranks"),
                 absl::StrCat("make with the controls' draws ", conditions, " conditions; at most ",
                              kMostConditions, ": fewer ranks or draws"));
  } else if (groups * conditions > kMostRows) {
    problems.Add("seeds", absl::StrCat(spec.seeds_size(), " seeds"),
                 absl::StrCat("of ", spec.models_size(), " models give ", groups * conditions,
                              " rows of results; at most ", kMostRows, ": fewer seeds or models"));
  }
  const int64_t answers = groups * conditions * NeedleCount(spec.low_rank().needles());
  if (conditions <= kMostConditions && answers > kMostOutcomeRows) {
    problems.Add(At("needles.samples_per_cell"),
                 absl::StrCat(NeedleCount(spec.low_rank().needles()), " samples"),
                 absl::StrCat("under ", conditions, " conditions give ", answers, " answers; at most ",
                              kMostOutcomeRows, ": fewer samples, ranks, draws or seeds"));
  }
  const int64_t tasks = groups * BlockCount(shape.count);
  if (tasks > kMostTasks) {
    problems.Add(
        At("perplexity.prompts"), absl::StrCat(shape.count, " prompts"),
        absl::StrCat("make ", tasks, " tasks; at most ", kMostTasks, ": fewer prompts, seeds or models"));
  }
}

}  // namespace

void LowRankExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const {
  v1::LowRank& low_rank = *spec.mutable_low_rank();
  ResolveHeadSet(*low_rank.mutable_heads(), At("heads"), facts, problems);
  ResolveRanks(low_rank, facts, problems);
  ResolveMatrices(*low_rank.mutable_matrices(), At("matrices"), problems);
  ResolvePerplexity(spec, facts, problems);
  if (low_rank.has_needles()) {
    ResolveLowRankNeedles(spec, facts, problems);
  }
  if (low_rank.controls_size() == 0) {
    low_rank.add_controls()->mutable_random();
  }
  ResolveControls(*low_rank.mutable_controls(), At("controls"), low_rank.heads(), ControlRules(), facts,
                  problems);
  if (!problems.empty()) {
    return;
  }
  WarnOfLargeFactors(low_rank, facts, problems);
  CheckSizes(spec, ShapeOf(low_rank.perplexity().prompts()).value_or(PromptShape()), problems);
}

}  // namespace ropelab::experiments
