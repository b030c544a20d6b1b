#include "server/experiments/outcome_conditions.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/head_draws.h"
#include "server/experiments/outcome.h"
#include "server/experiments/outcome_controls.h"
#include "server/experiments/outcome_dims.h"
#include "server/experiments/retrieval_labels.h"

namespace ropelab::experiments {
namespace {

using Heads = std::vector<NamedHead>;
using Patched = v1::PatchCondition;

template <typename Edit>
void SetPositions(const OutcomeFields& fields, Edit& edit) {
  if (fields.range.has_value()) {
    *edit.mutable_position_range() = *fields.range;
  } else {
    edit.set_positions(*fields.positions);
  }
}

void AddZeroDims(const OutcomeFields& fields, const Heads& heads, const Dims& dims,
                 v1::Condition& condition) {
  v1::ZeroDims& edit = *condition.add_interventions()->mutable_zero_dims();
  ListHeads(heads, *edit.mutable_heads());
  edit.mutable_dims()->Assign(dims.begin(), dims.end());
  edit.set_target(*fields.target);
  edit.set_stage(*fields.stage);
  SetPositions(fields, edit);
}

class Compiler {
 public:
  Compiler(const OutcomeFields& fields, const v1::ModelConfig& config, const std::string& label,
           uint64_t seed, const Utilities* utilities, OutcomeConditions& result)
      : fields_(fields), config_(config), label_(label), seed_(seed), utilities_(utilities), result_(result) {
    Add({.name = "baseline"}, v1::Condition());
  }

  // Heads of one point, and those that its controls are drawn from.
  absl::Status AddPoint(const OutcomePoint& point, const Heads& heads, const Heads& candidates) {
    result_.points.push_back(point);
    if (fields_.knockout()) {
      Add({.name = "knockout", .point = point, .heads = heads}, KnockedOut(heads));
    }
    for (const Patched::Value condition : fields_.conditions) {
      AddPatch(condition, point, heads);
    }
    for (const v1::ControlHeads& control : fields_.controls) {
      const ControlRules rules = {fields_.per_head(), true};
      ROPELAB_ASSIGN_OR_RETURN(const std::vector<ControlDraw> draws,
                               ControlDraws(control, heads, candidates, rules, label_, seed_,
                                            absl::StrCat(fields_.kind, ".controls")));
      for (const ControlDraw& draw : draws) {
        OutcomeCondition line = {.name = ControlName(control) + "_control",
                                 .control = ControlName(control),
                                 .draw = draw.draw,
                                 .point = point,
                                 .heads = draw.heads};
        Add(std::move(line), fields_.knockout()
                                 ? KnockedOut(draw.heads)
                                 : Zeroed(draw.heads, LowestFrequencyDims(config_, Count(point))));
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t Count(const OutcomePoint& point) const {
    return DimsOfShare(*point.dose, config_.head_dim()).value_or(0);
  }

  v1::Condition KnockedOut(const Heads& heads) const {
    v1::Condition condition;
    v1::ZeroHead& edit = *condition.add_interventions()->mutable_zero_head();
    ListHeads(heads, *edit.mutable_heads());
    SetPositions(fields_, edit);
    return condition;
  }

  v1::Condition Zeroed(const Heads& heads, const Dims& dims) const {
    v1::Condition condition;
    AddZeroDims(fields_, heads, dims, condition);
    return condition;
  }

  // Dimensions of each head's own.
  v1::Condition ZeroedEach(const Heads& heads, const std::function<Dims(const NamedHead&)>& dims) const {
    v1::Condition condition;
    for (const NamedHead& head : heads) {
      AddZeroDims(fields_, {head}, dims(head), condition);
    }
    return condition;
  }

  void AddPatch(Patched::Value condition, const OutcomePoint& point, const Heads& heads) {
    const int64_t count = Count(point);
    const OutcomeCondition line = {.name = ConditionName(condition), .point = point, .heads = heads};
    switch (condition) {
      case Patched::LOWEST_FREQUENCY:
        return Add(line, Zeroed(heads, LowestFrequencyDims(config_, count)));
      case Patched::HIGHEST_FREQUENCY:
        return Add(line, Zeroed(heads, HighestFrequencyDims(config_, count)));
      case Patched::LOWEST_UTILITY:
        return Add(line, ZeroedEach(heads, [&](const NamedHead& head) {
                     return utilities_->LowestDims(head.layer, head.head, count);
                   }));
      case Patched::HIGHEST_UTILITY:
        return Add(line, ZeroedEach(heads, [&](const NamedHead& head) {
                     return utilities_->HighestDims(head.layer, head.head, count);
                   }));
      case Patched::RANDOM_DIMS:
        for (int64_t draw = 0; draw < fields_.random_dims.draws(); ++draw) {
          OutcomeCondition drawn = line;
          drawn.draw = draw;
          Add(std::move(drawn), ZeroedEach(heads, [&](const NamedHead& head) {
                return RandomDimsOf(config_.head_dim(), count, fields_.random_dims.pairs(), seed_, draw,
                                    head.layer, head.head);
              }));
        }
        return;
      default:
        return;  // LAYER_MATCHED_CONTROL stands among the controls
    }
  }

  void Add(OutcomeCondition line, v1::Condition condition) {
    const auto [at, is_new] = known_.emplace(condition.SerializeAsString(), result_.measured.size());
    if (is_new) {
      result_.measured.push_back(std::move(condition));
    }
    line.measured = at->second;
    if (line.point.dose.has_value()) {
      line.dims = Count(line.point);
    }
    result_.list.push_back(std::move(line));
  }

  const OutcomeFields& fields_;
  const v1::ModelConfig& config_;
  const std::string& label_;
  const uint64_t seed_;
  const Utilities* utilities_;
  OutcomeConditions& result_;
  std::map<std::string, size_t> known_;  // conditions as their bytes, which one program writes alike
};

// The heads of each coverage: the empty one is the whole set.
absl::StatusOr<std::vector<std::pair<std::optional<double>, Heads>>> CoveredHeads(const OutcomeFields& fields,
                                                                                  const Heads& heads,
                                                                                  const Context& context,
                                                                                  const std::string& label,
                                                                                  int64_t seed) {
  std::vector<std::pair<std::optional<double>, Heads>> covered;
  for (const double coverage : fields.coverages) {
    const int64_t count = ShareOf(coverage, static_cast<int64_t>(heads.size()));
    ROPELAB_ASSIGN_OR_RETURN(Heads best, BestHeadsOf(*fields.heads, count, context, label, seed));
    covered.emplace_back(coverage, std::move(best));
  }
  if (covered.empty()) {
    covered.emplace_back(std::nullopt, heads);
  }
  return covered;
}

// What found the heads, and how to find more.
std::string NobodyFound(const OutcomeFields& fields, const std::string& label, uint64_t seed) {
  const v1::HeadSet& set = *fields.heads;
  const std::string of = absl::StrCat(" of model ", label, ", seed ", seed);
  if (set.has_retrieval()) {
    const v1::RetrievalHeads& retrieval = set.retrieval();
    return absl::StrCat("detection \"", retrieval.experiment(), "\" found no retrieval head by ",
                        MetricName(retrieval.metric()), of, " at ",
                        retrieval.choice_case() == v1::RetrievalHeads::kThreshold
                            ? absl::StrCat("threshold ", retrieval.threshold())
                            : "its own threshold",
                        "; lower the threshold, or detect on more samples");
  }
  if (set.has_slash_dominant()) {
    return absl::StrCat(
        "detection \"", set.slash_dominant().experiment(), "\" found no slash-dominant head", of, " at ",
        set.slash_dominant().has_threshold() ? absl::StrCat("threshold ", set.slash_dominant().threshold())
                                             : "its own threshold",
        "; lower the threshold");
  }
  return absl::StrCat("the scores \"", set.imported().name(), "\" have no head",
                      set.imported().choice_case() == v1::ImportedHeads::kThreshold
                          ? absl::StrCat(" at threshold ", set.imported().threshold())
                          : "",
                      "; lower the threshold, or take the top");
}

absl::Status CheckSize(const OutcomeFields& fields, const std::string& label,
                       const OutcomeConditions& result) {
  const int64_t count = static_cast<int64_t>(result.measured.size());
  if (count > kMostOutcomeConditions) {
    return absl::FailedPreconditionError(
        absl::StrCat(fields.kind, ": the ", result.heads.size(), " heads of model ", label, " make ", count,
                     " conditions; at most ", kMostOutcomeConditions,
                     ": fewer draws, conditions or heads (top or top_share)"));
  }
  for (int64_t first = 1; first < count; first += kConditionsPerTask) {
    int64_t bytes = 0;
    for (int64_t c = first; c < std::min(first + kConditionsPerTask, count); ++c) {
      bytes += static_cast<int64_t>(result.measured[static_cast<size_t>(c)].ByteSizeLong());
    }
    if (bytes > kMostOutcomeBytes) {
      return absl::FailedPreconditionError(
          absl::StrCat(fields.kind, ": ", kConditionsPerTask, " conditions of the ", result.heads.size(),
                       " heads of model ", label, " take ", bytes >> 10, " KiB in a task; at most ",
                       kMostOutcomeBytes >> 10, " KiB: fewer heads (top or top_share) or dimensions"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OutcomeConditions> OutcomeConditionsOf(const v1::ExperimentSpec& spec, const Context& context,
                                                      size_t model, uint64_t seed,
                                                      const Utilities* utilities) {
  const OutcomeFields fields = FieldsOf(spec);
  const std::string& label = spec.models(static_cast<int>(model));
  const v1::ModelConfig& config = context.models[model].config;
  const int64_t whole_seed = static_cast<int64_t>(seed);
  OutcomeConditions result;
  result.detector = DetectorOf(*fields.heads);
  ROPELAB_ASSIGN_OR_RETURN(result.heads, HeadsOf(*fields.heads, context, label, whole_seed));
  if (result.heads.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(fields.kind, ".heads: ", NobodyFound(fields, label, seed)));
  }
  if (fields.NeedsUtilities() && utilities == nullptr) {
    return absl::InternalError(absl::StrCat(fields.kind, ": conditions by utility need utilities"));
  }
  if (!fields.knockout() && 2 * int64_t{config.inv_freq_size()} != config.head_dim()) {
    return absl::InternalError(absl::StrCat("model ", label, " was announced with ", config.inv_freq_size(),
                                            " frequencies for heads of ", config.head_dim(), " dimensions"));
  }
  ROPELAB_ASSIGN_OR_RETURN(const Heads avoided, DetectedHeadsOf(*fields.heads, context, label, whole_seed));
  const Heads candidates = HeadsOutside(config, avoided);
  result.candidates = static_cast<int64_t>(candidates.size());
  std::vector<std::optional<double>> doses(fields.shares.begin(), fields.shares.end());
  if (fields.dims.has_value()) {
    doses = {static_cast<double>(*fields.dims) / static_cast<double>(config.head_dim())};
  } else if (doses.empty()) {
    doses = {std::nullopt};
  }
  ROPELAB_ASSIGN_OR_RETURN(const auto covered,
                           CoveredHeads(fields, result.heads, context, label, whole_seed));
  Compiler compiler(fields, config, label, seed, utilities, result);
  for (const auto& [coverage, heads] : covered) {
    for (const std::optional<double>& dose : doses) {
      if (!fields.per_head()) {
        ROPELAB_RETURN_IF_ERROR(compiler.AddPoint({.coverage = coverage, .dose = dose}, heads, candidates));
        continue;
      }
      for (const NamedHead& head : heads) {
        ROPELAB_RETURN_IF_ERROR(
            compiler.AddPoint({.layer = head.layer, .head = head.head, .dose = dose}, {head}, candidates));
      }
    }
  }
  ROPELAB_RETURN_IF_ERROR(CheckSize(fields, label, result));
  return result;
}

}  // namespace ropelab::experiments
