// Resolve of the kinds that outcome_fields.h names: their defaults are the retrieval paper's.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/experiments/head_set.h"
#include "server/experiments/needles.h"
#include "server/experiments/outcome.h"
#include "server/experiments/outcome_controls.h"
#include "server/experiments/outcome_dims.h"
#include "server/experiments/outcome_fields.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

using Condition = v1::PatchCondition;

constexpr int64_t kRandomDimsDraws = 3;
constexpr double kDefaultShare = 0.125;

// How many samples of each context length a kind asks for.
struct OutcomeDefaults {
  std::vector<int64_t> context_lengths;
  int64_t samples_per_length = 0;
  std::vector<int> conditions;
};

class Resolver {
 public:
  Resolver(const std::string& kind, v1::ExperimentSpec& spec, const Facts& facts, Problems& problems)
      : kind_(kind), spec_(spec), facts_(facts), problems_(problems) {}

  std::string At(const std::string& field) const { return absl::StrCat(kind_, ".", field); }

  // What all six have.
  template <typename Kind>
  void Common(Kind& kind, const OutcomeDefaults& defaults) {
    ResolveHeadSet(*kind.mutable_heads(), At("heads"), facts_, problems_);
    ResolvePositions(kind);
    ResolveSamples(*kind.mutable_needles(), defaults);
    if (kind.has_perplexity()) {
      ResolvePerplexity(*kind.mutable_perplexity()->mutable_prompts(), kind.positions());
    }
    if (kind.has_position_range()) {
      CheckReached(kind.position_range(), kind.needles(), kind.perplexity().prompts());
    }
    const ControlRules rules = {kind_ == "per_head_patch", true};
    ResolveControls(*kind.mutable_controls(), At("controls"), kind.heads(), rules, facts_, problems_);
  }

  template <typename Kind>
  void Patch(Kind& kind, const OutcomeDefaults& defaults) {
    ResolveConditions(*kind.mutable_conditions(), *kind.mutable_controls(), defaults.conditions);
    if (!kind.has_target()) {
      kind.set_target(v1::Target::QUERY);
    }
    if (!kind.has_stage()) {
      kind.set_stage(v1::EditStage::PRE_ROPE);
    }
    const bool random = Holds(kind.conditions(), Condition::RANDOM_DIMS);
    if (random) {
      ResolveRandomDims(*kind.mutable_random_dims());
    } else if (kind.has_random_dims()) {
      problems_.Add(At("random_dims"), "", "says how RANDOM_DIMS are drawn, which is none of the conditions");
    }
    Common(kind, defaults);
  }

  // The one share of head_dim of a kind.
  template <typename Kind>
  void Share(Kind& kind) {
    if (!kind.has_dims_share()) {
      kind.set_dims_share(kDefaultShare);
    }
    CheckDimsShare(kind.dims_share(), At("dims_share"), WholePairs(kind), facts_, problems_);
  }

  // Whether some condition takes whole RoPE pairs.
  template <typename Kind>
  static bool WholePairs(const Kind& kind) {
    return Holds(kind.conditions(), Condition::LOWEST_FREQUENCY) ||
           Holds(kind.conditions(), Condition::HIGHEST_FREQUENCY) || kind.controls_size() > 0 ||
           (Holds(kind.conditions(), Condition::RANDOM_DIMS) && kind.random_dims().pairs());
  }

  // Shares of a sweep: each once, each as `check` has it, then ascending.
  template <typename Check>
  void Sweep(google::protobuf::RepeatedField<double>& shares, const char* field,
             const std::vector<double>& defaults, const Check& check) {
    if (shares.empty()) {
      shares.Assign(defaults.begin(), defaults.end());
    }
    std::set<double> seen;
    for (int i = 0; i < shares.size(); ++i) {
      const std::string path = absl::StrCat(At(field), "[", i, "]");
      if (!seen.insert(shares[i]).second) {
        problems_.Add(path, absl::StrCat(shares[i]), "stands there twice; name each share once");
      }
      check(shares[i], path);
    }
    std::sort(shares.begin(), shares.end());
  }

 private:
  static bool Holds(const google::protobuf::RepeatedField<int>& conditions, Condition::Value condition) {
    return std::find(conditions.begin(), conditions.end(), static_cast<int>(condition)) != conditions.end();
  }

  template <typename Kind>
  void ResolvePositions(Kind& kind) {
    if (!kind.has_position_range()) {
      if (!kind.has_positions()) {
        kind.set_positions(v1::EditPositions::ALL);
      }
      return;
    }
    const v1::PositionRange& range = kind.position_range();
    if (kind.has_positions()) {
      problems_.Add(At("positions"), v1::EditPositions::Value_Name(kind.positions()),
                    "excludes position_range; say one of them");
    } else if (!range.has_first() || !range.has_last() || range.first() < 0 || range.last() < range.first()) {
      problems_.Add(At("position_range"), absl::StrCat(range.first(), " to ", range.last()),
                    "is first and last position of the prompt, from 0, both included");
    }
  }

  // A range behind a prompt would edit nothing of it. Of resolved prompts; where a tokenizer makes fewer
  // tokens of a needle's prompt than its context length, the worker says so.
  void CheckReached(const v1::PositionRange& range, const v1::Needles& needles,
                    const v1::PromptSource& prompts) {
    const std::string value = absl::StrCat(range.first(), " to ", range.last());
    const auto shortest =
        std::min_element(needles.context_lengths().begin(), needles.context_lengths().end());
    if (shortest != needles.context_lengths().end() && range.first() >= *shortest) {
      problems_.Add(At("position_range"), value,
                    absl::StrCat("begins behind the prompts of ", *shortest,
                                 " tokens, of which nothing would be edited; begin below ", *shortest));
      return;
    }
    const std::optional<PromptShape> shape = ShapeOf(prompts);
    if (shape.has_value() && shape->shortest > 0 && range.first() >= shape->shortest &&
        KnowsTokens(prompts)) {
      problems_.Add(At("position_range"), value,
                    absl::StrCat("begins behind a prompt of perplexity.prompts, of ", shape->shortest,
                                 " tokens; begin below that, give longer prompts, or leave perplexity out"));
    }
  }

  void ResolveSamples(v1::Needles& needles, const OutcomeDefaults& defaults) {
    NeedleDefaults cells;
    cells.context_lengths = defaults.context_lengths;
    const int64_t depths =
        needles.depths_size() > 0 ? needles.depths_size() : static_cast<int64_t>(cells.depths.size());
    cells.samples_per_cell = (defaults.samples_per_length + depths - 1) / depths;
    ResolveNeedles(needles, At("needles"), cells, spec_, facts_, problems_);
  }

  void ResolvePerplexity(v1::PromptSource& prompts, v1::EditPositions::Value positions) {
    const std::string path = At("perplexity.prompts");
    if (positions == v1::EditPositions::QUESTION) {
      problems_.Add(At("perplexity"), "",
                    "plain text has no question to edit; leave it out, or say positions: ALL");
      return;
    }
    ResolvePrompts(prompts, path, spec_, facts_, problems_);
    const std::optional<PromptShape> shape = ShapeOf(prompts);
    if (shape.has_value() && shape->shortest < 2 && KnowsTokens(prompts)) {
      problems_.Add(path, absl::StrCat(shape->shortest, " token"),
                    "a prompt of one token has nothing to predict; every prompt needs 2 or more");
    }
  }

  // A control is asked for by its condition or by saying how it is drawn: either brings the other.
  void ResolveConditions(google::protobuf::RepeatedField<int>& conditions, Controls& controls,
                         const std::vector<int>& defaults) {
    std::set<int> named;
    for (int i = 0; i < conditions.size(); ++i) {
      if (!named.insert(conditions[i]).second) {
        problems_.Add(absl::StrCat(At("conditions"), "[", i, "]"),
                      Condition::Value_Name(static_cast<Condition::Value>(conditions[i])),
                      "is named twice; name each condition once");
      }
    }
    if (named.empty()) {
      named.insert(defaults.begin(), defaults.end());
    }
    const bool matched = std::any_of(controls.begin(), controls.end(), [](const v1::ControlHeads& control) {
      return control.has_layer_matched();
    });
    if (matched) {
      named.insert(Condition::LAYER_MATCHED_CONTROL);
    } else if (named.count(Condition::LAYER_MATCHED_CONTROL) > 0) {
      controls.Add()->mutable_layer_matched();
    }
    conditions.Assign(named.begin(), named.end());
  }

  void ResolveRandomDims(v1::RandomDims& random) {
    random.set_draws(random.has_draws() ? random.draws() : kRandomDimsDraws);
    random.set_pairs(random.pairs());
    if (random.draws() < 1 || random.draws() > kMostDraws) {
      problems_.Add(At("random_dims.draws"), absl::StrCat(random.draws()),
                    absl::StrCat("give 1 to ", kMostDraws, " draws"));
    }
  }

  const std::string& kind_;
  v1::ExperimentSpec& spec_;
  const Facts& facts_;
  Problems& problems_;
};

const std::vector<int>& AllConditions() {
  static const std::vector<int> all = {Condition::LOWEST_FREQUENCY, Condition::HIGHEST_FREQUENCY,
                                       Condition::LOWEST_UTILITY,   Condition::HIGHEST_UTILITY,
                                       Condition::RANDOM_DIMS,      Condition::LAYER_MATCHED_CONTROL};
  return all;
}

void ResolveKnockout(Resolver& resolver, v1::Knockout& knockout) {
  if (knockout.controls_size() == 0) {
    knockout.add_controls()->mutable_random();
  }
  resolver.Common(knockout, {{1024, 2048, 4096}, 50, {}});
}

void ResolvePatch(Resolver& resolver, v1::Patch& patch, const Facts& facts, Problems& problems) {
  resolver.Patch(patch, {{4096}, 200, AllConditions()});
  if (patch.has_dims() && patch.has_dims_share()) {
    problems.Add("patch.dims", absl::StrCat(patch.dims()), "excludes dims_share; say one of them");
  } else if (patch.has_dims()) {
    CheckDims(patch.dims(), "patch.dims", Resolver::WholePairs(patch), facts, problems);
  } else {
    resolver.Share(patch);
  }
}

void ResolveDose(Resolver& resolver, v1::DoseSweep& sweep, const Facts& facts, Problems& problems) {
  resolver.Patch(sweep, {{4096}, 200, {Condition::LOWEST_FREQUENCY, Condition::RANDOM_DIMS}});
  resolver.Sweep(*sweep.mutable_dims_shares(), "dims_shares", {0.0625, 0.125, 0.25, 0.375, 0.5},
                 [&](double share, const std::string& path) {
                   CheckDimsShare(share, path, Resolver::WholePairs(sweep), facts, problems);
                 });
}

void ResolveCoverage(Resolver& resolver, v1::CoverageSweep& sweep, Problems& problems) {
  resolver.Patch(sweep, {{4096}, 200, {Condition::LOWEST_FREQUENCY, Condition::HIGHEST_FREQUENCY}});
  resolver.Share(sweep);
  resolver.Sweep(*sweep.mutable_coverages(), "coverages", {0.3, 0.5, 1.0},
                 [&](double coverage, const std::string& path) {
                   if (!(coverage > 0 && coverage <= 1)) {
                     problems.Add(path, absl::StrCat(coverage),
                                  "a coverage is a share of the heads, above 0 and at most 1");
                   }
                 });
}

}  // namespace

void OutcomeExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const {
  const std::string kind = field_;
  Resolver resolver(kind, spec, facts, problems);
  switch (spec.kind_case()) {
    case v1::ExperimentSpec::kKnockout:
      ResolveKnockout(resolver, *spec.mutable_knockout());
      break;
    case v1::ExperimentSpec::kPatch:
      ResolvePatch(resolver, *spec.mutable_patch(), facts, problems);
      break;
    case v1::ExperimentSpec::kPerHeadPatch:
      resolver.Patch(*spec.mutable_per_head_patch(), {{4096}, 200, AllConditions()});
      resolver.Share(*spec.mutable_per_head_patch());
      break;
    case v1::ExperimentSpec::kDoseSweep:
      ResolveDose(resolver, *spec.mutable_dose_sweep(), facts, problems);
      break;
    case v1::ExperimentSpec::kCoverageSweep:
      ResolveCoverage(resolver, *spec.mutable_coverage_sweep(), problems);
      break;
    default:
      resolver.Patch(
          *spec.mutable_context_sweep(),
          {{1024, 2048, 4096, 8192}, 200, {Condition::LOWEST_FREQUENCY, Condition::HIGHEST_FREQUENCY}});
      resolver.Share(*spec.mutable_context_sweep());
      break;
  }
  if (problems.empty()) {
    CheckOutcomeSizes(spec, facts, problems);
  }
}

}  // namespace ropelab::experiments
