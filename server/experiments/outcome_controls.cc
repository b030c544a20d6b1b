#include "server/experiments/outcome_controls.h"

#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ropelab::experiments {
namespace {

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
                 absl::StrCat("give ", least, " to ", kMostDraws, " draws"));
  }
}

// Whether each model leaves enough heads, as far as the heads are known.
void CheckHeadsLeft(const v1::HeadList& list, const ControlRules& rules, const Facts& facts,
                    const v1::ControlHeads& control, const std::string& path, Problems& problems) {
  std::vector<NamedHead> named, compared;
  std::set<int64_t> layers;
  for (const v1::Head& head : list.head()) {
    named.push_back({head.layer(), head.head(), std::nullopt});
    if (layers.insert(head.layer()).second || !rules.each_alone) {
      compared.push_back(named.back());
    }
  }
  for (const ModelFacts& model : facts.models) {
    const std::vector<NamedHead> candidates = HeadsOutside(model.config, named);
    const std::vector<LayerShortage> shortages =
        control.has_layer_matched() ? ShortagesOf(compared, candidates) : std::vector<LayerShortage>();
    const std::string of = absl::StrCat("of model ", model.name, " ");
    const size_t wanted = rules.each_alone ? 1 : named.size();
    if (!shortages.empty() && control.layer_matched().shortfall() == v1::Shortfall::ERROR) {
      problems.Add(path + ".layer_matched", absl::StrCat(named.size(), " heads"),
                   absl::StrCat(of, DescribeShortages(shortages),
                                " left; say shortfall: REPORT_PARTIAL, or name fewer heads"));
    } else if (!shortages.empty()) {
      problems.Warn(absl::StrCat(path, ".layer_matched: ", of, DescribeShortages(shortages), " left"));
    } else if (control.has_random() && candidates.size() < wanted && rules.whole_random) {
      problems.Add(path + ".random", absl::StrCat(wanted, " heads"),
                   absl::StrCat(of, candidates.size(), " others are left to draw from; name fewer heads"));
    } else if (control.has_random() && candidates.size() < wanted) {
      problems.Warn(absl::StrCat(path, ".random: ", of, candidates.size(), " heads are left, and ", wanted,
                                 " are named: a draw has those that are left"));
    }
  }
}

}  // namespace

std::string ControlName(const v1::ControlHeads& control) {
  return control.has_random() ? "random" : "layer_matched";
}

int64_t DrawsOf(const v1::ControlHeads& control) {
  return control.has_random() ? control.random().draws() : control.layer_matched().draws();
}

void ResolveControls(Controls& controls, const std::string& path, const v1::HeadSet& heads,
                     const ControlRules& rules, const Facts& facts, Problems& problems) {
  std::set<std::string> kinds;
  for (int i = 0; i < controls.size(); ++i) {
    const std::string at = absl::StrCat(path, "[", i, "]");
    v1::ControlHeads& control = *controls.Mutable(i);
    if (control.set_case() == v1::ControlHeads::SET_NOT_SET) {
      problems.Add(at, "", "say which: random {} or layer_matched {}");
      continue;
    }
    if (!kinds.insert(ControlName(control)).second) {
      problems.Add(at, ControlName(control), "is named twice; ask for more draws in one");
    }
    ResolveDraws(control, at, problems);
    if (problems.empty() && heads.has_list()) {
      CheckHeadsLeft(heads.list(), rules, facts, control, at, problems);
    }
  }
}

absl::StatusOr<std::vector<ControlDraw>> ControlDraws(const v1::ControlHeads& control,
                                                      const std::vector<NamedHead>& named,
                                                      const std::vector<NamedHead>& candidates,
                                                      const ControlRules& rules, const std::string& label,
                                                      uint64_t seed, const std::string& where) {
  if (control.has_random() && rules.whole_random && candidates.size() < named.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        where, ": for a random control of the ", named.size(), " heads of model ", label, ", seed ", seed,
        ", ", candidates.size(), " others are left to draw from; take fewer heads (top or top_share)"));
  }
  if (control.has_layer_matched() && control.layer_matched().shortfall() == v1::Shortfall::ERROR) {
    const std::vector<LayerShortage> shortages = ShortagesOf(named, candidates);
    if (!shortages.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(where, ": for a layer_matched control of the ", named.size(), " heads of model ",
                       label, ", seed ", seed, ", ", DescribeShortages(shortages),
                       " left; say shortfall: REPORT_PARTIAL, or name fewer heads"));
    }
  }
  std::vector<ControlDraw> draws;
  for (int64_t draw = 0; draw < DrawsOf(control); ++draw) {
    ControlDraw drawn;
    drawn.draw = draw;
    drawn.heads = control.has_random()
                      ? RandomHeads(candidates, static_cast<int64_t>(named.size()), seed, draw)
                      : LayerMatchedHeads(named, candidates, seed, draw);
    if (!drawn.heads.empty()) {
      draws.push_back(std::move(drawn));
    }
  }
  return draws;
}

}  // namespace ropelab::experiments
