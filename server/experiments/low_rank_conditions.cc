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
  ROPELAB_ASSIGN_OR_RETURN(std::vector<ControlDraw> draws,
                           ControlDraws(control, sets.front().heads, candidates, ControlRules(), label, seed,
                                        "low_rank.controls"));
  for (ControlDraw& draw : draws) {
    sets.push_back({ControlName(control), draw.draw, std::move(draw.heads)});
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
