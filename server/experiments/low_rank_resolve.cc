#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/experiments/head_draws.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/low_rank_edit.h"
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

void ResolveDraws(v1::ControlHeads& control, const std::string& path, Problems& problems) {
  int64_t least = 1;
  if (control.has_random()) {
    least = kLeastDraws;
    control.mutable_random()->set_draws(control.random().has_draws() ? control.random().draws()
                                                                     : kLeastDraws);
  } else {
    v1::LayerMatchedControl& matched = *control.mutable_layer_matched();
    matched.set_draws(matched.has_draws() ? matched.draws() : kLeastDraws);
    matched.set_shortfall(matched.has_shortfall() ? matched.shortfall() : v1::Shortfall::ERROR);
  }
  if (DrawsOf(control) < least || DrawsOf(control) > kMostDraws) {
    problems.Add(absl::StrCat(path, ".", ControlName(control), ".draws"), absl::StrCat(DrawsOf(control)),
                 absl::StrCat("is ", least, " to ", kMostDraws, " draws"));
  }
}

// Whether each model leaves enough heads, as far as the heads are known.
void CheckHeadsLeft(const v1::LowRank& low_rank, const Facts& facts, const v1::ControlHeads& control,
                    const std::string& path, Problems& problems) {
  std::vector<NamedHead> named;
  for (const v1::Head& head : low_rank.heads().list().head()) {
    named.push_back({head.layer(), head.head(), std::nullopt});
  }
  for (const ModelFacts& model : facts.models) {
    const std::vector<NamedHead> candidates = HeadsOutside(model.config, named);
    const std::vector<LayerShortage> shortages =
        control.has_layer_matched() ? ShortagesOf(named, candidates) : std::vector<LayerShortage>();
    const std::string of = absl::StrCat("of model ", model.name, " ");
    if (!shortages.empty() && control.layer_matched().shortfall() == v1::Shortfall::ERROR) {
      problems.Add(path + ".layer_matched", absl::StrCat(named.size(), " heads"),
                   absl::StrCat(of, DescribeShortages(shortages),
                                " left; say shortfall: REPORT_PARTIAL, or name fewer heads"));
    } else if (!shortages.empty()) {
      problems.Warn(absl::StrCat(path, ".layer_matched: ", of, DescribeShortages(shortages), " left"));
    } else if (control.has_random() && candidates.size() < named.size()) {
      problems.Warn(absl::StrCat(path, ".random: ", of, candidates.size(), " heads are left, and ",
                                 named.size(), " are named: a draw has those that are left"));
    }
  }
}

void ResolveControls(v1::LowRank& low_rank, const Facts& facts, Problems& problems) {
  if (low_rank.controls_size() == 0) {
    low_rank.add_controls()->mutable_random();
  }
  std::set<std::string> kinds;
  for (int i = 0; i < low_rank.controls_size(); ++i) {
    const std::string path = absl::StrCat(At("controls"), "[", i, "]");
    v1::ControlHeads& control = *low_rank.mutable_controls(i);
    if (control.set_case() == v1::ControlHeads::SET_NOT_SET) {
      problems.Add(path, "", "say which: random {} or layer_matched {}");
      continue;
    }
    if (!kinds.insert(ControlName(control)).second) {
      problems.Add(path, ControlName(control), "is named twice; ask for more draws in one");
    }
    ResolveDraws(control, path, problems);
    if (problems.empty() && low_rank.heads().has_list()) {
      CheckHeadsLeft(low_rank, facts, control, path, problems);
    }
  }
}

void ResolvePerplexity(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) {
  v1::LowRank& low_rank = *spec.mutable_low_rank();
  const std::string path = At("perplexity.prompts");
  v1::PromptSource& prompts = *low_rank.mutable_perplexity()->mutable_prompts();
  ResolvePrompts(prompts, path, spec, facts, problems);
  const std::optional<PromptShape> shape = ShapeOf(prompts);
  if (shape.has_value() && shape->shortest < 2) {
    problems.Add(path, absl::StrCat(shape->shortest, " token"),
                 "a prompt of one token has nothing to predict; every prompt needs 2 or more");
  }
  if (low_rank.has_needles()) {
    problems.Add(At("needles"), "", "is not built in this version; leave it out, perplexity remains");
  }
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
  ResolveHeadSet(low_rank.heads(), At("heads"), facts, problems);
  ResolveRanks(low_rank, facts, problems);
  ResolveMatrices(*low_rank.mutable_matrices(), At("matrices"), problems);
  ResolvePerplexity(spec, facts, problems);
  ResolveControls(low_rank, facts, problems);
  if (!problems.empty()) {
    return;
  }
  WarnOfLargeFactors(low_rank, facts, problems);
  CheckSizes(spec, ShapeOf(low_rank.perplexity().prompts()).value_or(PromptShape()), problems);
}

}  // namespace ropelab::experiments
