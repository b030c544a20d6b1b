#include "server/experiments/low_rank_readings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/low_rank_stages.h"
#include "server/experiments/model_names.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

absl::StatusOr<std::vector<LowRankGroup>> EmptyGroups(const v1::ExperimentSpec& spec, const Context& context,
                                                      LowRankStages& found, int64_t prompts) {
  std::vector<LowRankGroup> groups;
  for (size_t m = 0; m < context.models.size(); ++m) {
    for (const uint64_t seed : spec.seeds()) {
      LowRankGroup group;
      group.model = &context.models[m];
      group.label = spec.models(static_cast<int>(m));
      group.dtype = v1::Dtype::Value_Name(DtypeOf(spec, *group.model));
      group.seed = static_cast<int64_t>(seed);
      ROPELAB_ASSIGN_OR_RETURN(group.conditions, LowRankConditionsOf(spec, context, m, seed));
      group.nll.assign(group.conditions.measured.size(), 0.0);
      group.prompts = prompts;
      if (!found.prompts.choices.empty()) {
        group.choice = std::move(found.prompts.choices[groups.size()]);
        group.in_corpus = found.prompts.in_corpus;
      }
      if (found.needles.has_value()) {
        const NeedleChoice& chosen =
            found.needles->seeds[groups.size() % static_cast<size_t>(spec.seeds_size())];
        group.answers.emplace(chosen.kept, group.conditions.measured.size());
        group.dropped = static_cast<int64_t>(chosen.dropped.size());
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

// How many losses of a group were read.
using Read = std::vector<int64_t>;

absl::Status AddLoss(const v1::PromptSource& prompts, const v1::PromptLoss& loss, int64_t& read,
                     LowRankGroup& group) {
  const int64_t conditions = static_cast<int64_t>(group.nll.size());
  const int64_t sample = read / conditions, condition = read % conditions;
  const std::string of = absl::StrCat("model ", group.label, ", seed ", group.seed, ": ");
  if (sample >= group.prompts || loss.sample() != sample || loss.condition() != condition) {
    return absl::InternalError(absl::StrCat(of, "the loss of sample ", loss.sample(), " under condition ",
                                            loss.condition(), " was given where sample ", sample,
                                            " under condition ", condition, " is due"));
  }
  const int64_t predicted = TokensOf(prompts, sample) - 1;
  // Of needle prompts a tokenizer decides.
  if (KnowsTokens(prompts) ? loss.tokens() != predicted : loss.tokens() < 1 || loss.tokens() > predicted) {
    return absl::InternalError(absl::StrCat(of, "the loss of sample ", sample, " under condition ", condition,
                                            " is over ", loss.tokens(), " tokens, not ", predicted));
  }
  ++read;
  group.nll[static_cast<size_t>(condition)] += loss.nll();
  group.tokens += condition == 0 ? loss.tokens() : 0;
  return absl::OkStatus();
}

absl::Status CheckComplete(const LowRankGroup& group, int64_t read) {
  const int64_t expected = group.prompts * static_cast<int64_t>(group.nll.size());
  if (read != expected) {
    return absl::InternalError(absl::StrCat("model ", group.label, ", seed ", group.seed, ": ", read,
                                            " losses were given, not ", expected));
  }
  return absl::OkStatus();
}

absl::Status AddAnswer(const OutcomeTask& task, const v1::Reading& reading, LowRankGroup& group) {
  const int64_t own = reading.needle_answer().condition();
  if (!reading.has_needle_answer() || own < 0 || task.first + static_cast<size_t>(own) >= task.end) {
    return absl::InternalError(absl::StrCat("a task on needles of model ", group.label, ", seed ", group.seed,
                                            " gave a reading that is none of its answers"));
  }
  return group.answers->Add(reading.needle_answer(), task.first + static_cast<size_t>(own));
}

}  // namespace

std::optional<double> LowRankGroup::Perplexity(size_t measured) const {
  const double perplexity = std::exp(nll[measured] / static_cast<double>(tokens));
  return std::isfinite(perplexity) ? std::optional<double>(perplexity) : std::nullopt;
}

absl::StatusOr<std::vector<LowRankGroup>> ReadLosses(const v1::ExperimentSpec& spec, const Context& context,
                                                     StageReadings& readings) {
  if (context.models.size() != static_cast<size_t>(spec.models_size())) {
    return absl::InternalError(absl::StrCat("the spec names ", spec.models_size(), " models, but ",
                                            context.models.size(), " were given to reduce it"));
  }
  const v1::PromptSource& prompts = spec.low_rank().perplexity().prompts();
  ROPELAB_ASSIGN_OR_RETURN(LowRankStages found,
                           FindLowRankStages(spec, context, std::numeric_limits<int64_t>::max(), readings));
  const int64_t count = ShapeOf(prompts).value_or(PromptShape()).count;
  ROPELAB_ASSIGN_OR_RETURN(std::vector<LowRankGroup> groups, EmptyGroups(spec, context, found, count));
  const size_t seeds = static_cast<size_t>(spec.seeds_size());
  std::vector<size_t> conditions;
  for (const LowRankGroup& group : groups) {
    conditions.push_back(group.conditions.measured.size());
  }
  const std::vector<OutcomeTask> tasks = LowRankNeedleTasks(found, conditions, seeds);
  const size_t on_prompts = groups.size() * static_cast<size_t>(found.prompts.blocks);
  Read read(groups.size(), 0);
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(
      found.stages + 1,
      [&](int64_t task_index, const v1::Measurement&, const v1::Reading& reading) -> absl::Status {
        const size_t at = static_cast<size_t>(task_index);
        if (at >= on_prompts && at < on_prompts + tasks.size()) {
          const OutcomeTask& task = tasks[at - on_prompts];
          return AddAnswer(task, reading, groups[task.model * seeds + task.seed]);
        }
        if (at >= on_prompts || !reading.has_prompt_loss()) {
          return absl::InternalError(
              absl::StrCat("task ", task_index, " gave a reading that is no part of this plan"));
        }
        const size_t group = at / static_cast<size_t>(found.prompts.blocks);
        return AddLoss(prompts, reading.prompt_loss(), read[group], groups[group]);
      }));
  for (size_t i = 0; i < groups.size(); ++i) {
    ROPELAB_RETURN_IF_ERROR(CheckComplete(groups[i], read[i]));
    if (groups[i].answers.has_value()) {
      ROPELAB_RETURN_IF_ERROR(groups[i].answers->CheckComplete());
    }
  }
  std::sort(groups.begin(), groups.end(), [](const LowRankGroup& a, const LowRankGroup& b) {
    return std::tie(a.label, a.dtype, a.seed) < std::tie(b.label, b.dtype, b.seed);
  });
  return groups;
}

}  // namespace ropelab::experiments
