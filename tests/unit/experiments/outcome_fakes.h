// Knockouts and patches that were never run: which samples are right under which condition is a test's
// choice.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fakes.h"
#include "server/experiments/outcome_conditions.h"

namespace ropelab::experiments {

// Two layers of four heads of 16 dimensions, heads 0, 1 and 2, 3 share their keys; frequencies fall with the
// pair.
inline ModelFacts PatchModel(const std::string& name = "toy") {
  ModelFacts model = ReadingModel(name);
  for (int pair = 0; pair < 8; ++pair) {
    model.config.add_inv_freq(std::pow(10000.0, -pair / 8.0));
  }
  return model;
}

inline FakeCatalogue PatchCatalogue() {
  return FakeCatalogue({PatchModel()}, {Books()});
}

// A spec of a kind with two listed heads, L0H2 and L1H1, and ten needles in two blocks, unless said.
inline constexpr char kTwoHeads[] = "list { head { layer: 0 head: 2 } head { layer: 1 head: 1 } }";
inline constexpr char kTenNeedles[] =
    "context_lengths: 128 depths: 0.5 samples_per_cell: 10 haystack { generated {} }";
inline std::string OutcomeSpec(const std::string& kind, const std::string& fields = "",
                               const std::string& heads = kTwoHeads,
                               const std::string& needles = kTenNeedles) {
  return "name: 'x' model: 'toy' " + kind + " { heads { " + heads + " } needles { " + needles + " } " +
         fields + " }";
}

// Whether a sample is right; `condition` is that of the task.
using FakeRight = std::function<bool(const v1::Condition& condition, int64_t sample)>;
// The loss per token of a prompt of 63 predicted tokens.
using FakeLoss = std::function<double(const v1::Condition& condition, int64_t sample)>;

inline std::vector<v1::Reading> MeasureOutcomes(const v1::ConditionOutcomes& outcomes, const FakeRight& right,
                                                const FakeLoss& loss) {
  std::vector<v1::Reading> readings;
  const v1::SampleBlock& samples = outcomes.prompts().samples();
  for (int64_t i = 0; i < samples.count(); ++i) {
    const int64_t sample = samples.first_sample() + i;
    for (int c = 0; c < outcomes.conditions_size(); ++c) {
      v1::Reading& reading = readings.emplace_back();
      if (outcomes.prompts().has_needle()) {
        v1::NeedleAnswer& answer = *reading.mutable_needle_answer();
        answer.set_sample(sample);
        answer.set_condition(c);
        answer.set_correct(right(outcomes.conditions(c), sample));
        answer.set_generated(answer.correct() ? " CODE" : " nothing");
      } else {
        v1::PromptLoss& of_prompt = *reading.mutable_prompt_loss();
        of_prompt.set_sample(sample);
        of_prompt.set_condition(c);
        of_prompt.set_tokens(63);
        of_prompt.set_nll(63 * loss(outcomes.conditions(c), sample));
      }
    }
  }
  return readings;
}

inline absl::StatusOr<Results> RunOutcomes(const std::string& spec, const FakeRight& right,
                                           const FakeLoss& loss = nullptr,
                                           Context context = ContextOf({PatchModel()}, {Books()})) {
  const ResolvedExperiment experiment = Resolved(spec, PatchCatalogue());
  FakeReadings readings;
  for (int64_t stage = 1; stage < 9; ++stage) {
    const StagePlan plan = PlanOf(experiment, context, stage, readings);
    if (plan.empty()) {
      break;
    }
    for (const PlannedTask& task : plan) {
      std::vector<v1::Reading> given;
      if (task.measurement.has_weight_profile()) {
        for (int32_t layer = 0; layer < 2; ++layer) {
          v1::QueryRowNorms& norms = *given.emplace_back().mutable_query_row_norms();
          norms.set_layer(layer);
          norms.set_heads(4);
          norms.set_head_dim(16);
          for (int row = 0; row < 64; ++row) {
            norms.add_norm(1 + (row * 5) % 16);  // dimension 0 the least, 13 the next, 3 the largest
          }
        }
      } else {
        given = MeasureOutcomes(task.measurement.condition_outcomes(), right, loss);
      }
      readings.Add(stage, task.measurement, std::move(given));
    }
  }
  return FindKind(experiment.kind)->experiment->Reduce(experiment.resolved, context, readings);
}

// Heads of a condition's first intervention: "L0H2 L1H1"; empty of the model as it is.
inline std::string HeadsIn(const v1::Condition& condition) {
  std::string heads;
  for (const v1::Intervention& edit : condition.interventions()) {
    const v1::HeadSet& set = edit.has_zero_head() ? edit.zero_head().heads() : edit.zero_dims().heads();
    for (const v1::Head& head : set.list().head()) {
      heads +=
          (heads.empty() ? "L" : " L") + std::to_string(head.layer()) + "H" + std::to_string(head.head());
    }
  }
  return heads;
}

}  // namespace ropelab::experiments
