// Which conditions knockouts, patches and their sweeps compile to, and in which tasks they are measured.
#include "outcome_fakes.h"
#include "server/experiments/detection.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

OutcomeConditions ConditionsOf(const std::string& spec, Context context = ContextOf({PatchModel()}),
                               uint64_t seed = 42) {
  const ResolvedExperiment experiment = Resolved(spec, PatchCatalogue());
  Utilities utilities(2, 4, 16);
  for (int32_t layer = 0; layer < 2; ++layer) {
    v1::QueryRowNorms norms;
    norms.set_layer(layer);
    norms.set_heads(4);
    norms.set_head_dim(16);
    for (int row = 0; row < 64; ++row) {
      norms.add_norm(1 + (row * 5) % 16);
    }
    EXPECT_TRUE(utilities.Add(norms).ok());
  }
  const auto conditions = OutcomeConditionsOf(experiment.resolved, context, 0, seed, &utilities);
  EXPECT_TRUE(conditions.ok()) << conditions.status();
  return conditions.ok() ? *conditions : OutcomeConditions();
}

std::vector<std::string> NamesOf(const OutcomeConditions& conditions) {
  std::vector<std::string> names;
  for (const OutcomeCondition& line : conditions.list) {
    names.push_back(line.name + (line.draw.has_value() ? " " + std::to_string(*line.draw) : ""));
  }
  return names;
}

const v1::Condition& Measured(const OutcomeConditions& conditions, size_t line) {
  return conditions.measured[conditions.list[line].measured];
}

TEST(OutcomeConditions, AKnockoutZeroesTheHeadsAndAsManyOthers) {
  const OutcomeConditions conditions = ConditionsOf(OutcomeSpec("knockout"));
  ASSERT_EQ(conditions.list.size(), 12u);
  EXPECT_EQ(conditions.list[0].name, "baseline");
  EXPECT_EQ(Measured(conditions, 0).interventions_size(), 0);
  EXPECT_EQ(conditions.list[1].name, "knockout");
  EXPECT_EQ(HeadsIn(Measured(conditions, 1)), "L0H2 L1H1");
  EXPECT_TRUE(Measured(conditions, 1).interventions(0).has_zero_head());
  EXPECT_EQ(Measured(conditions, 1).interventions(0).zero_head().positions(), v1::EditPositions::ALL);
  EXPECT_EQ(conditions.candidates, 6);
  for (size_t draw = 0; draw < 10; ++draw) {
    const OutcomeCondition& line = conditions.list[2 + draw];
    EXPECT_EQ(line.name, "random_control");
    EXPECT_EQ(line.control, "random");
    EXPECT_EQ(line.draw, draw);
    EXPECT_EQ(line.heads.size(), 2u);
    EXPECT_THAT(HeadsIn(Measured(conditions, 2 + draw)), testing::Not(HasSubstr("L0H2")));
    EXPECT_THAT(HeadsIn(Measured(conditions, 2 + draw)), testing::Not(HasSubstr("L1H1")));
  }
  // Of six heads two are drawn ten times: draws that found the same heads share a measurement.
  EXPECT_LT(conditions.measured.size(), 12u);
}

TEST(OutcomeConditions, APatchChoosesByFrequencyByUtilityAndAtRandom) {
  const OutcomeConditions conditions =
      ConditionsOf(OutcomeSpec("patch", "controls { layer_matched { draws: 1 } } random_dims { draws: 2 }"));
  EXPECT_THAT(NamesOf(conditions),
              ElementsAre("baseline", "lowest_frequency", "highest_frequency", "lowest_utility",
                          "highest_utility", "random_dims 0", "random_dims 1", "layer_matched_control 0"));
  const v1::ZeroDims& lowest = Measured(conditions, 1).interventions(0).zero_dims();
  EXPECT_EQ(Measured(conditions, 1).interventions_size(), 1);
  EXPECT_THAT(lowest.dims(), ElementsAre(7, 15));
  EXPECT_EQ(lowest.target(), v1::Target::QUERY);
  EXPECT_EQ(lowest.stage(), v1::EditStage::PRE_ROPE);
  EXPECT_THAT(Measured(conditions, 2).interventions(0).zero_dims().dims(), ElementsAre(0, 8));
  // Norms are 1 + 5 row mod 16: rows 0 and 13 the least, 3 and 6 the largest.
  ASSERT_EQ(Measured(conditions, 3).interventions_size(), 2);
  EXPECT_THAT(Measured(conditions, 3).interventions(1).zero_dims().dims(), ElementsAre(0, 13));
  EXPECT_THAT(Measured(conditions, 4).interventions(0).zero_dims().dims(), ElementsAre(3, 6));
  EXPECT_EQ(HeadsIn(Measured(conditions, 4)), "L0H2 L1H1");
  EXPECT_THAT(Measured(conditions, 5).interventions(0).zero_dims().dims(), ElementsAre(4, 15));  // numpy's
  EXPECT_THAT(Measured(conditions, 7).interventions(0).zero_dims().dims(), ElementsAre(7, 15));
  const std::vector<NamedHead>& matched = conditions.list[7].heads;
  ASSERT_EQ(matched.size(), 2u);
  EXPECT_EQ(matched[0].layer, 0);
  EXPECT_EQ(matched[1].layer, 1);
  for (size_t line = 1; line < 8; ++line) {
    EXPECT_EQ(conditions.list[line].dims, 2) << line;
    EXPECT_EQ(conditions.list[line].point.dose, 0.125) << line;
  }
}

TEST(OutcomeConditions, EveryDoseHasItsOwnPoint) {
  const OutcomeConditions conditions =
      ConditionsOf(OutcomeSpec("dose_sweep", "dims_shares: [0.125, 0.5] random_dims { draws: 1 }"));
  EXPECT_THAT(NamesOf(conditions), ElementsAre("baseline", "lowest_frequency", "random_dims 0",
                                               "lowest_frequency", "random_dims 0"));
  EXPECT_EQ(conditions.list[1].dims, 2);
  EXPECT_EQ(conditions.list[3].dims, 8);
  EXPECT_EQ(conditions.points.size(), 2u);
  EXPECT_THAT(Measured(conditions, 3).interventions(0).zero_dims().dims(),
              ElementsAre(4, 5, 6, 7, 12, 13, 14, 15));
}

TEST(OutcomeConditions, OneHeadAtATime) {
  const OutcomeConditions conditions = ConditionsOf(
      OutcomeSpec("per_head_patch", "conditions: LOWEST_FREQUENCY position_range { first: 3 last: 9 }"));
  ASSERT_EQ(conditions.list.size(), 3u);
  EXPECT_EQ(HeadsIn(Measured(conditions, 1)), "L0H2");
  EXPECT_EQ(HeadsIn(Measured(conditions, 2)), "L1H1");
  EXPECT_EQ(conditions.list[2].point.layer, 1);
  EXPECT_EQ(conditions.list[2].point.head, 1);
  const v1::ZeroDims& edit = Measured(conditions, 1).interventions(0).zero_dims();
  EXPECT_FALSE(edit.has_positions());
  EXPECT_EQ(edit.position_range().last(), 9);
}

// Three heads listed out of order: coverage takes the first of them.
TEST(OutcomeConditions, CoverageOfAListGoesByItsOrder) {
  const OutcomeConditions conditions = ConditionsOf(
      OutcomeSpec("coverage_sweep", "conditions: LOWEST_FREQUENCY",
                  "list { head { layer: 1 head: 3 } head { layer: 0 head: 0 } head { layer: 0 head: 1 } }"));
  ASSERT_EQ(conditions.list.size(), 4u);
  EXPECT_EQ(HeadsIn(Measured(conditions, 1)), "L1H3");       // ⌈0.3 · 3⌉
  EXPECT_EQ(HeadsIn(Measured(conditions, 2)), "L0H0 L1H3");  // ⌈0.5 · 3⌉
  EXPECT_EQ(HeadsIn(Measured(conditions, 3)), "L0H0 L0H1 L1H3");
  EXPECT_EQ(conditions.list[2].point.coverage, 0.5);
}

// Heads by how many of 20 samples they look at the needle: L0H1 20, L0H3 19, L1H2 4, L1H0 2, L1H1 1, the rest
// none.
Context Detected() {
  const double hits[8] = {0, 20, 0, 19, 2, 1, 4, 0};
  DetectionScores scores(
      FromText<v1::RetrievalDetection>("needles { context_lengths: 64 depths: 0.5 } metrics: [ARGMAX, MASS]"),
      PatchModel().config);
  for (int64_t i = 0; i < 20; ++i) {
    v1::Measurement measurement;
    v1::PromptBlock& prompts = *measurement.mutable_needle_attention()->mutable_prompts();
    prompts.mutable_samples()->set_first_sample(i);
    prompts.mutable_samples()->set_count(1);
    v1::NeedleSample& sample = *prompts.mutable_needle()->add_samples();
    sample.set_context_length(64);
    sample.set_depth(0.5);
    sample.set_index(i);
    v1::Reading reading;
    v1::NeedleHeads& heads = *reading.mutable_needle_heads();
    heads.mutable_realised()->set_sample(i);
    heads.mutable_realised()->set_fits(true);
    for (const double of_head : hits) {
      heads.add_argmax(static_cast<double>(i) < of_head ? 1 : 0);
      heads.add_mass(0.01);
    }
    const absl::Status status = scores.Add(measurement, reading);
    EXPECT_TRUE(status.ok()) << status;
  }
  HeadScoresTable table("0123456789abcdef");
  table.Add({"toy", v1::Dtype::FLOAT32, std::nullopt, 42}, scores, 0.1);
  Context context = ContextOf({PatchModel()}, {Books()});
  context.earlier.push_back({"detect", "digest", {table.Finish().slice}});
  return context;
}

// The second experiment of a study whose first is a detection.
ResolvedExperiment OfStudy(const std::string& experiment) {
  Problems problems;
  ResolvedSubmission study = ResolveSubmission(
      StudyOf("name: 's' model: 'toy' experiments { name: 'detect' retrieval_detection { needles { "
              "context_lengths: 128 haystack { generated {} } } } } experiments { " +
              experiment + " }"),
      PatchCatalogue(), problems);
  for (const v1::FieldProblem& problem : problems.problems()) {
    ADD_FAILURE() << problem.field() << ": " << problem.remedy();
  }
  return study.experiments.at(1);
}

std::string Found(const std::string& choice = "") {
  return "retrieval { experiment: 'detect' metric: ARGMAX " + choice + " }";
}

TEST(OutcomeConditions, CoverageOfADetectionGoesByScore) {
  // At 0.05 five heads are found, more than the detection's own threshold labels.
  const ResolvedExperiment experiment = OfStudy(OutcomeSpec(
      "coverage_sweep", "coverages: [0.2, 0.8, 1] conditions: LOWEST_FREQUENCY", Found("threshold: 0.05")));
  const auto conditions = OutcomeConditionsOf(experiment.resolved, Detected(), 0, 42, nullptr);
  ASSERT_TRUE(conditions.ok()) << conditions.status();
  EXPECT_EQ(conditions->detector, "argmax");
  EXPECT_EQ(HeadsIn(Measured(*conditions, 1)), "L0H1");
  EXPECT_EQ(HeadsIn(Measured(*conditions, 2)), "L0H1 L0H3 L1H0 L1H2");
  EXPECT_EQ(HeadsIn(Measured(*conditions, 3)), "L0H1 L0H3 L1H0 L1H1 L1H2");
}

TEST(OutcomeConditions, ControlsAvoidEveryHeadThatWasDetected) {
  const ResolvedExperiment experiment = OfStudy(OutcomeSpec("knockout", "", Found("top: 2")));
  const auto conditions = OutcomeConditionsOf(experiment.resolved, Detected(), 0, 42, nullptr);
  ASSERT_TRUE(conditions.ok()) << conditions.status();
  EXPECT_EQ(conditions->candidates, 4);  // four heads reach 0.1
  for (size_t line = 2; line < conditions->list.size(); ++line) {
    for (const char* found : {"L0H1", "L0H3", "L1H2", "L1H0"}) {
      EXPECT_THAT(HeadsIn(Measured(*conditions, line)), testing::Not(HasSubstr(found)));
    }
  }
}

TEST(OutcomeConditions, AnEmptySetNamesTheDetectionAndItsThreshold) {
  const ResolvedExperiment experiment =
      OfStudy(OutcomeSpec("patch", "", "retrieval { experiment: 'detect' metric: MASS threshold: 0.5 }"));
  const auto conditions = OutcomeConditionsOf(experiment.resolved, Detected(), 0, 42, nullptr);
  EXPECT_EQ(conditions.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      conditions.status().message(),
      HasSubstr("patch.heads: detection \"detect\" found no retrieval head by mass of model toy, seed 42 "
                "at threshold 0.5; lower the threshold"));
}

TEST(OutcomeConditions, AControlThatCannotBeMatchedNamesTheLayer) {
  // Two of layer 0 are found and two others left; of layer 1 at 0.05 three, and one is left.
  const ResolvedExperiment experiment = OfStudy(OutcomeSpec(
      "patch", "conditions: [LOWEST_FREQUENCY, LAYER_MATCHED_CONTROL]", Found("threshold: 0.05")));
  const auto conditions = OutcomeConditionsOf(experiment.resolved, Detected(), 0, 42, nullptr);
  EXPECT_EQ(conditions.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      conditions.status().message(),
      HasSubstr("patch.controls: for a layer_matched control of the 5 heads of model toy, seed 42, layer 1 "
                "has 1 of 3 heads left"));
  const ResolvedExperiment random = OfStudy(OutcomeSpec("knockout", "", Found("threshold: 0.05")));
  EXPECT_THAT(OutcomeConditionsOf(random.resolved, Detected(), 0, 42, nullptr).status().message(),
              HasSubstr("for a random control of the 5 heads of model toy, seed 42, 3 others are left"));
  const ResolvedExperiment partial = OfStudy(OutcomeSpec(
      "patch", "conditions: LOWEST_FREQUENCY controls { layer_matched { shortfall: REPORT_PARTIAL } }",
      Found("threshold: 0.05")));
  const auto fewer = OutcomeConditionsOf(partial.resolved, Detected(), 0, 42, nullptr);
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_EQ(fewer->list[2].heads.size(), 3u);
}

std::vector<int> ConditionCounts(const StagePlan& plan) {
  std::vector<int> counts;
  for (const PlannedTask& task : plan) {
    counts.push_back(task.measurement.condition_outcomes().conditions_size());
  }
  return counts;
}

// 1 + 11 conditions, ten needles in two blocks, nine prompts in two.
TEST(OutcomePlan, TheModelAsItIsHasATaskOfItsOwnAndTheOthersGoInPortions) {
  const ResolvedExperiment experiment =
      Resolved(OutcomeSpec("per_head_patch",
                           "conditions: [LOWEST_FREQUENCY, RANDOM_DIMS] random_dims { draws: 4 } "
                           "perplexity { prompts { generated { count: 9 tokens: 64 } } }"),
               PatchCatalogue());
  FakeReadings none;
  const Context context = ContextOf({PatchModel()}, {Books()});
  const StagePlan plan = PlanOf(experiment, context, 1, none);
  EXPECT_THAT(ConditionCounts(plan), ElementsAre(1, 8, 2, 1, 8, 2, 1, 8, 2, 1, 8, 2));
  const v1::ConditionOutcomes& needles = plan[3].measurement.condition_outcomes();
  EXPECT_EQ(needles.answer_tokens(), 20);
  EXPECT_EQ(needles.prompts().needle().use(), v1::NeedlePrompts::TEST);
  EXPECT_EQ(needles.prompts().samples().first_sample(), 8);
  EXPECT_EQ(needles.prompts().samples().count(), 2);
  const v1::ConditionOutcomes& prompts = plan[11].measurement.condition_outcomes();
  EXPECT_EQ(prompts.answer_tokens(), 0);
  EXPECT_EQ(prompts.prompts().samples().count(), 1);
  EXPECT_TRUE(prompts.prompts().has_generated());
  EXPECT_TRUE(PlanOf(experiment, context, 2, none).empty());
}

// At submit one head is counted; five are found.
TEST(OutcomePlan, WhatTheFoundHeadsMakeOfItIsBounded) {
  const ResolvedExperiment experiment = OfStudy(
      OutcomeSpec("per_head_patch", "conditions: [LOWEST_FREQUENCY, RANDOM_DIMS] random_dims { draws: 900 }",
                  Found("threshold: 0.05"),
                  "context_lengths: 128 depths: 0.5 samples_per_cell: 1000 haystack { generated {} }"));
  FakeReadings none;
  const auto plan = FindKind("per_head_patch")->experiment->Plan(experiment.resolved, Detected(), 1, none);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(plan.status().message(), HasSubstr("make over 1048576 answers; fewer samples"));
}

TEST(OutcomeCost, SaysThatHeadsAreStillToBeFound) {
  for (const char* kind : {"knockout", "low_rank"}) {
    const std::string more = kind == std::string("low_rank")
                                 ? "ranks: 1 perplexity { prompts { generated { count: 8 tokens: 64 } } }"
                                 : "perplexity { prompts { generated { count: 8 tokens: 64 } } }";
    const ResolvedExperiment experiment = OfStudy(OutcomeSpec(kind, more, Found()));
    const v1::Estimate estimate =
        FindKind(kind)->experiment->Cost(experiment.resolved, Facts{{PatchModel()}, {}});
    EXPECT_THAT(estimate.basis(), HasSubstr("as if heads were found; tokenizing is not counted")) << kind;
  }
}

TEST(OutcomePlan, UtilitiesAreMeasuredFirstAndOnlyWhereTheyAreAskedFor) {
  const ResolvedExperiment experiment =
      Resolved(OutcomeSpec("patch", "conditions: HIGHEST_UTILITY"), PatchCatalogue());
  FakeReadings readings;
  const Context context = ContextOf({PatchModel()}, {Books()});
  const StagePlan plan = PlanOf(experiment, context, 1, readings);
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_TRUE(plan[0].measurement.weight_profile().has_query_rows());
  EXPECT_FALSE(plan[0].measurement.weight_profile().query_rows().fold_norm());
}

// Prompts that are drawn from the model come behind the utilities and before the measurement.
TEST(OutcomePlan, StagesOfPromptsStandBehindThoseOfUtilities) {
  const ResolvedExperiment experiment = Resolved(
      OutcomeSpec("patch",
                  "conditions: HIGHEST_UTILITY perplexity { prompts { sampled { count: 2 tokens: 8 } } }"),
      PatchCatalogue());
  FakeReadings readings;
  const Context context = ContextOf({PatchModel()}, {Books()});
  StagePlan plan = PlanOf(experiment, context, 1, readings);
  std::vector<v1::Reading> rows;
  for (int32_t layer = 0; layer < 2; ++layer) {
    v1::QueryRowNorms& norms = *rows.emplace_back().mutable_query_row_norms();
    norms.set_layer(layer);
    norms.set_heads(4);
    norms.set_head_dim(16);
    norms.mutable_norm()->Resize(64, 1.0);
  }
  readings.Add(1, plan.at(0).measurement, rows);
  plan = PlanOf(experiment, context, 2, readings);
  ASSERT_EQ(plan.size(), 1u);
  ASSERT_TRUE(plan[0].measurement.has_sampling());
  std::vector<v1::Reading> drawn;
  for (int64_t sample = 0; sample < 2; ++sample) {
    v1::SampledTokens& tokens = *drawn.emplace_back().mutable_sampled_tokens();
    tokens.set_sample(sample);
    tokens.mutable_ids()->mutable_ids()->Resize(8, 1);
  }
  readings.Add(2, plan[0].measurement, drawn);
  plan = PlanOf(experiment, context, 3, readings);
  EXPECT_THAT(ConditionCounts(plan), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_TRUE(plan.back().measurement.condition_outcomes().prompts().has_given());
  EXPECT_TRUE(PlanOf(experiment, context, 4, readings).empty());
}

TEST(OutcomePlan, ALowRankExperimentAnswersNeedlesBehindItsPrompts) {
  const ResolvedExperiment experiment =
      Resolved(OutcomeSpec("low_rank",
                           "ranks: [1, 2] perplexity { prompts { uniform_tokens { count: 9 tokens: 8 } } "
                           "}"),
               PatchCatalogue());
  FakeReadings none;
  const StagePlan plan = PlanOf(experiment, ContextOf({PatchModel()}, {Books()}), 1, none);
  // Two blocks of prompts with every condition, then two of needles in portions.
  const std::vector<int> counts = ConditionCounts(plan);
  ASSERT_GE(counts.size(), 4u);
  EXPECT_EQ(counts[0], counts[1]);
  EXPECT_EQ(counts[2], 1);
  EXPECT_EQ(counts[3], 8);
  EXPECT_EQ(plan[2].measurement.condition_outcomes().answer_tokens(), 20);
}

}  // namespace
}  // namespace ropelab::experiments
