// ConditionOutcomes: how well a model predicts plain text, or what it answers to needles, under one set of
// edits after the other. EXPERIMENTS.md sections 5 and 9.
#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/measure/condition_answers.h"
#include "worker/measure/condition_edits.h"
#include "worker/measure/condition_runs.h"
#include "worker/measure/kinds.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {
namespace {

// Plain text has no question.
absl::StatusOr<std::vector<ReadEdits>> ReadConditions(const v1::ConditionOutcomes& request,
                                                      const formats::ModelConfig& config) {
  std::vector<ReadEdits> edits;
  for (int c = 0; c < request.conditions_size(); ++c) {
    ROPELAB_ASSIGN_OR_RETURN(edits.emplace_back(),
                             ReadInterventions(request.conditions(c).interventions(),
                                               absl::StrCat("conditions[", c, "].interventions"), config,
                                               /*question_start=*/std::nullopt));
  }
  return edits;
}

// Something to predict, and something of it under every edit.
absl::Status CheckPrompts(const std::vector<TokenIds>& prompts, int64_t first_sample,
                          const std::vector<ReadEdits>& edits) {
  for (size_t p = 0; p < prompts.size(); ++p) {
    const std::string name = absl::StrCat("sample ", first_sample + static_cast<int64_t>(p));
    if (prompts[p].size() < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " has one token, which leaves nothing to predict; give 2 or more"));
    }
    for (const ReadEdits& edit : edits) {
      const absl::Status reached = CheckReached(edit, static_cast<int64_t>(prompts[p].size()));
      if (!reached.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": ", std::string(reached.message())));
      }
    }
  }
  return absl::OkStatus();
}

v1::Reading LossReading(int64_t sample, size_t condition, double nll, const TokenIds& ids) {
  v1::Reading reading;
  v1::PromptLoss& loss = *reading.mutable_prompt_loss();
  loss.set_sample(sample);
  loss.set_condition(static_cast<int64_t>(condition));
  loss.set_nll(nll);
  loss.set_tokens(static_cast<int64_t>(ids.size()) - 1);
  return reading;
}

absl::StatusOr<Outcome> MeasureLosses(const v1::ConditionOutcomes& request, const Resources& resources,
                                      Recorder& recorder) {
  const model::LoadedModel& model = *resources.model;
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<ReadEdits> edits, ReadConditions(request, model.config));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<TokenIds> prompts,
                           RealizePrompts(request.prompts(), model.config, resources));
  const int64_t first_sample = request.prompts().samples().first_sample();
  ROPELAB_RETURN_IF_ERROR(CheckPrompts(prompts, first_sample, edits));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<std::vector<double>> losses,
                           ConditionRuns(model, prompts, first_sample, edits, recorder).Run());
  for (size_t p = 0; p < prompts.size(); ++p) {
    for (size_t c = 0; c < edits.size(); ++c) {
      const int64_t sample = first_sample + static_cast<int64_t>(p);
      ROPELAB_RETURN_IF_ERROR(recorder.Emit(LossReading(sample, c, losses[c][p], prompts[p]), {}));
    }
  }
  return Outcome{FedIdsDigest(prompts)};
}

}  // namespace

absl::StatusOr<Outcome> MeasureConditionOutcomes(const v1::ConditionOutcomes& request,
                                                 const Resources& resources, Recorder& recorder) {
  if (request.conditions().empty()) {
    return absl::InvalidArgumentError(
        "condition_outcomes.conditions is empty; name at least one condition, without interventions for the "
        "model as it is");
  }
  if (request.prompts().has_needle()) return MeasureAnswers(request, resources, recorder);
  if (request.answer_tokens() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("condition_outcomes.answer_tokens is ",
                                                   request.answer_tokens(),
                                                   "; only needles are answered, leave it out"));
  }
  return MeasureLosses(request, resources, recorder);
}

// What is out of bounds is refused by MeasureConditionOutcomes with a better word than a size, so it is cut
// off here.
int64_t ConditionOutcomesBytes(const v1::ConditionOutcomes& request, const model::LoadedModel& model) {
  if (request.prompts().has_needle()) return AnswersBytes(request, model, at::get_num_threads());
  const int64_t tokens = std::clamp<int64_t>(LongestPrompt(request.prompts()), 1, model.config.max_positions);
  const int64_t prompts = std::clamp<int64_t>(request.prompts().samples().count(), 1, kBlockSamples);
  const auto edits = ReadConditions(request, model.config);
  return ConditionRuns::Bytes(model, prompts, tokens, edits.ok() ? *edits : std::vector<ReadEdits>(),
                              at::get_num_threads());
}

}  // namespace ropelab::measure
