#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/head_draws.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/low_rank_edit.h"

namespace ropelab::experiments {
namespace {

absl::Status AddDraws(const v1::ControlHeads& control, const std::string& label, uint64_t seed,
                      const std::vector<NamedHead>& candidates, std::vector<LowRankSet>& sets) {
  const std::vector<NamedHead> named = sets.front().heads;
  if (control.has_layer_matched() && control.layer_matched().shortfall() == v1::Shortfall::ERROR) {
    const std::vector<LayerShortage> shortages = ShortagesOf(named, candidates);
    if (!shortages.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("low_rank.controls: for a layer_matched control of the ", named.size(),
                       " heads of model ", label, ", seed ", seed, ", ", DescribeShortages(shortages),
                       " left; say shortfall: REPORT_PARTIAL, or name fewer heads"));
    }
  }
  for (int64_t draw = 0; draw < DrawsOf(control); ++draw) {
    LowRankSet set;
    set.control = ControlName(control);
    set.draw = draw;
    set.heads = control.has_random() ? RandomHeads(candidates, static_cast<int64_t>(named.size()), seed, draw)
                                     : LayerMatchedHeads(named, candidates, seed, draw);
    if (!set.heads.empty()) {
      sets.push_back(std::move(set));
    }
  }
  return absl::OkStatus();
}

absl::Status AddConditions(const v1::LowRank& low_rank, const std::string& label,
                           LowRankConditions& conditions) {
  conditions.measured.emplace_back();
  int64_t bytes = 0;
  for (const int64_t rank : low_rank.ranks()) {
    std::map<std::string, size_t> known;  // heads, as the edit holds them
    for (const LowRankSet& set : conditions.sets) {
      v1::Condition condition;
      *condition.add_interventions() = LowRankEditOf(set.heads, rank, low_rank.matrices());
      const auto [at, is_new] = known.emplace(condition.SerializeAsString(), conditions.measured.size());
      conditions.index.push_back(at->second);
      if (is_new) {
        bytes += static_cast<int64_t>(condition.ByteSizeLong());
        conditions.measured.push_back(std::move(condition));
      }
    }
  }
  if (bytes > kMostConditionBytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "low_rank: ", conditions.measured.size(), " conditions of ", conditions.sets.front().heads.size(),
        " heads of model ", label, " take ", bytes >> 10, " KiB, which every task carries; at most ",
        kMostConditionBytes >> 10, " KiB: fewer ranks, draws or heads (slash_dominant's top)"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string ControlName(const v1::ControlHeads& control) {
  return control.has_random() ? "random" : "layer_matched";
}

int64_t DrawsOf(const v1::ControlHeads& control) {
  return control.has_random() ? control.random().draws() : control.layer_matched().draws();
}

int64_t MostConditions(const v1::LowRank& low_rank) {
  int64_t sets = 1;
  for (const v1::ControlHeads& control : low_rank.controls()) {
    sets += DrawsOf(control);
  }
  return 1 + low_rank.ranks_size() * sets;
}

absl::StatusOr<LowRankConditions> LowRankConditionsOf(const v1::ExperimentSpec& spec, const Context& context,
                                                      size_t model, uint64_t seed) {
  const v1::LowRank& low_rank = spec.low_rank();
  const std::string& label = spec.models(static_cast<int>(model));
  ROPELAB_ASSIGN_OR_RETURN(std::vector<NamedHead> named,
                           HeadsOf(low_rank.heads(), context, label, static_cast<int64_t>(seed)));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<NamedHead> avoided,
                           DetectedHeadsOf(low_rank.heads(), context, label, static_cast<int64_t>(seed)));
  const std::vector<NamedHead> candidates = HeadsOutside(context.models[model].config, avoided);
  LowRankConditions conditions;
  conditions.candidates = static_cast<int64_t>(candidates.size());
  if (!named.empty()) {
    conditions.sets.push_back({"", std::nullopt, std::move(named)});
    for (const v1::ControlHeads& control : low_rank.controls()) {
      ROPELAB_RETURN_IF_ERROR(AddDraws(control, label, seed, candidates, conditions.sets));
    }
  }
  ROPELAB_RETURN_IF_ERROR(AddConditions(low_rank, label, conditions));
  return conditions;
}

}  // namespace ropelab::experiments
