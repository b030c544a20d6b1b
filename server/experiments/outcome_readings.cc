#include "server/experiments/outcome_readings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/model_names.h"
#include "server/experiments/outcome_fields.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {

OutcomeAnswers::OutcomeAnswers(std::vector<v1::NeedleSample> samples, size_t conditions)
    : samples_(std::move(samples)),
      correct_(conditions, std::vector<State>(samples_.size(), kMissing)),
      generated_(conditions, std::vector<std::string>(samples_.size())) {}

absl::Status OutcomeAnswers::Add(const v1::NeedleAnswer& answer, size_t condition) {
  const bool known = condition < correct_.size() && answer.sample() >= 0 &&
                     answer.sample() < static_cast<int64_t>(samples_.size());
  if (!known || correct_[condition][static_cast<size_t>(answer.sample())] != kMissing) {
    return absl::InternalError(absl::StrCat("the answer to sample ", answer.sample(), " under condition ",
                                            condition, known ? " was given twice" : " was never asked for"));
  }
  const size_t sample = static_cast<size_t>(answer.sample());
  correct_[condition][sample] = answer.correct() ? kCorrect : kWrong;
  generated_[condition][sample] = answer.generated();
  return absl::OkStatus();
}

absl::Status OutcomeAnswers::CheckComplete() const {
  for (size_t condition = 0; condition < correct_.size(); ++condition) {
    for (size_t sample = 0; sample < samples_.size(); ++sample) {
      if (correct_[condition][sample] == kMissing) {
        return absl::InternalError(
            absl::StrCat("no answer was given to sample ", sample, " under condition ", condition));
      }
    }
  }
  return absl::OkStatus();
}

std::optional<double> OutcomeLosses::Perplexity(size_t condition) const {
  if (sums_.empty() || sums_[condition].tokens == 0) {
    return std::nullopt;
  }
  const double perplexity = std::exp(sums_[condition].nll / static_cast<double>(sums_[condition].tokens));
  return std::isfinite(perplexity) ? std::optional<double>(perplexity) : std::nullopt;
}

absl::Status OutcomeLosses::Add(const v1::PromptLoss& loss, size_t condition) {
  if (condition >= sums_.size() || loss.sample() != sums_[condition].prompts || loss.tokens() < 1) {
    return absl::InternalError(absl::StrCat("the loss of sample ", loss.sample(), " over ", loss.tokens(),
                                            " tokens under condition ", condition, " was not due"));
  }
  Sum& sum = sums_[condition];
  sum.nll += loss.nll();
  sum.tokens += loss.tokens();
  ++sum.prompts;
  return absl::OkStatus();
}

absl::Status OutcomeLosses::CheckComplete(int64_t prompts) const {
  for (size_t condition = 0; condition < sums_.size(); ++condition) {
    if (sums_[condition].prompts != prompts || sums_[condition].tokens != sums_.front().tokens) {
      return absl::InternalError(
          absl::StrCat("condition ", condition, " was measured on ", sums_[condition].prompts, " prompts of ",
                       sums_[condition].tokens, " tokens, not on ", prompts, " of ", sums_.front().tokens));
    }
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<std::vector<OutcomeGroup>> EmptyGroups(const v1::ExperimentSpec& spec, const Context& context,
                                                      OutcomeStages& found) {
  std::vector<OutcomeGroup> groups;
  for (size_t m = 0; m < context.models.size(); ++m) {
    for (size_t s = 0; s < static_cast<size_t>(spec.seeds_size()); ++s) {
      const uint64_t seed = spec.seeds(static_cast<int>(s));
      OutcomeGroup group;
      group.model = &context.models[m];
      group.label = spec.models(static_cast<int>(m));
      group.dtype = v1::Dtype::Value_Name(DtypeOf(spec, *group.model));
      group.seed = static_cast<int64_t>(seed);
      ROPELAB_ASSIGN_OR_RETURN(group.conditions,
                               OutcomeConditionsOf(spec, context, m, seed, found.UtilitiesOf(m)));
      const size_t measured = group.conditions.measured.size();
      group.answers = OutcomeAnswers(found.needles.seeds[s].kept, measured);
      group.dropped = static_cast<int64_t>(found.needles.seeds[s].dropped.size());
      if (found.prompts.has_value()) {
        group.losses = OutcomeLosses(measured);
        if (!found.prompts->choices.empty()) {
          group.choice = std::move(found.prompts->choices[groups.size()]);
          group.in_corpus = found.prompts->in_corpus;
        }
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

absl::Status AddReading(const OutcomeTask& task, const v1::Reading& reading, OutcomeGroup& group) {
  if (task.losses ? !reading.has_prompt_loss() : !reading.has_needle_answer()) {
    return absl::InternalError("a task gave a reading of another kind than it was asked for");
  }
  const int64_t own = task.losses ? reading.prompt_loss().condition() : reading.needle_answer().condition();
  if (own < 0 || task.first + static_cast<size_t>(own) >= task.end) {
    return absl::InternalError(absl::StrCat("a reading is of condition ", own, ", which its task has not"));
  }
  const size_t condition = task.first + static_cast<size_t>(own);
  return task.losses ? group.losses.Add(reading.prompt_loss(), condition)
                     : group.answers.Add(reading.needle_answer(), condition);
}

}  // namespace

absl::StatusOr<std::vector<OutcomeGroup>> ReadOutcomes(const v1::ExperimentSpec& spec, const Context& context,
                                                       StageReadings& readings) {
  if (context.models.size() != static_cast<size_t>(spec.models_size())) {
    return absl::InternalError(absl::StrCat("the spec names ", spec.models_size(), " models, but ",
                                            context.models.size(), " were given to reduce it"));
  }
  ROPELAB_ASSIGN_OR_RETURN(OutcomeStages found,
                           FindOutcomeStages(spec, context, std::numeric_limits<int64_t>::max(), readings));
  ROPELAB_ASSIGN_OR_RETURN(std::vector<OutcomeGroup> groups, EmptyGroups(spec, context, found));
  const FoundPrompts* prompts = found.prompts.has_value() ? &*found.prompts : nullptr;
  const size_t seeds = static_cast<size_t>(spec.seeds_size());
  std::vector<OutcomeTask> tasks;
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<OutcomeTask> own =
        OutcomeTasksOf(found.needles, prompts, groups[g].conditions.measured.size(), g / seeds, g % seeds);
    tasks.insert(tasks.end(), own.begin(), own.end());
  }
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(
      found.stages + 1,
      [&](int64_t task_index, const v1::Measurement&, const v1::Reading& reading) -> absl::Status {
        if (task_index < 0 || task_index >= static_cast<int64_t>(tasks.size())) {
          return absl::InternalError(absl::StrCat("task ", task_index, " is no part of this plan"));
        }
        const OutcomeTask& task = tasks[static_cast<size_t>(task_index)];
        return AddReading(task, reading, groups[task.model * seeds + task.seed]);
      }));
  const OutcomeFields fields = FieldsOf(spec);
  const int64_t count =
      fields.perplexity == nullptr ? 0 : ShapeOf(*fields.perplexity).value_or(PromptShape()).count;
  for (const OutcomeGroup& group : groups) {
    ROPELAB_RETURN_IF_ERROR(group.answers.CheckComplete());
    ROPELAB_RETURN_IF_ERROR(group.losses.CheckComplete(count));
  }
  std::sort(groups.begin(), groups.end(), [](const OutcomeGroup& a, const OutcomeGroup& b) {
    return std::tie(a.label, a.dtype, a.seed) < std::tie(b.label, b.dtype, b.seed);
  });
  return groups;
}

}  // namespace ropelab::experiments
