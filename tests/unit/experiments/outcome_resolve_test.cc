// What knockouts, patches and their sweeps may say, and what is written where they say nothing.
#include "absl/strings/str_cat.h"
#include "outcome_fakes.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Condition = v1::PatchCondition;

v1::ExperimentSpec ResolvedSpec(const std::string& text) {
  return Resolved(text, PatchCatalogue()).resolved;
}

TEST(OutcomeResolve, AKnockoutHasTenRandomControls) {
  const v1::Knockout knockout = ResolvedSpec(OutcomeSpec("knockout")).knockout();
  ASSERT_EQ(knockout.controls_size(), 1);
  EXPECT_EQ(knockout.controls(0).random().draws(), 10);
  EXPECT_EQ(knockout.positions(), v1::EditPositions::ALL);
  EXPECT_FALSE(knockout.has_perplexity());
}

TEST(OutcomeResolve, APatchHasTheSixConditionsOfThePaper) {
  const v1::Patch patch = ResolvedSpec(OutcomeSpec("patch")).patch();
  EXPECT_THAT(patch.conditions(), ElementsAre(Condition::LOWEST_FREQUENCY, Condition::HIGHEST_FREQUENCY,
                                              Condition::LOWEST_UTILITY, Condition::HIGHEST_UTILITY,
                                              Condition::RANDOM_DIMS, Condition::LAYER_MATCHED_CONTROL));
  EXPECT_EQ(patch.dims_share(), 0.125);
  EXPECT_FALSE(patch.has_dims());
  EXPECT_EQ(patch.target(), v1::Target::QUERY);
  EXPECT_EQ(patch.stage(), v1::EditStage::PRE_ROPE);
  EXPECT_EQ(patch.positions(), v1::EditPositions::ALL);
  EXPECT_EQ(patch.random_dims().draws(), 3);
  EXPECT_FALSE(patch.random_dims().pairs());
  ASSERT_EQ(patch.controls_size(), 1);
  EXPECT_EQ(patch.controls(0).layer_matched().draws(), 10);
  EXPECT_EQ(patch.controls(0).layer_matched().shortfall(), v1::Shortfall::ERROR);
}

TEST(OutcomeResolve, SweepsHaveThePapersPoints) {
  ModelFacts wide = PatchModel();
  wide.config.set_head_dim(32);
  wide.config.clear_inv_freq();
  for (int pair = 0; pair < 16; ++pair) {
    wide.config.add_inv_freq(1.0 / (1 + pair));
  }
  const v1::DoseSweep dose = Resolved(OutcomeSpec("dose_sweep"), FakeCatalogue({wide})).resolved.dose_sweep();
  EXPECT_THAT(dose.dims_shares(), ElementsAre(0.0625, 0.125, 0.25, 0.375, 0.5));
  EXPECT_THAT(dose.conditions(), ElementsAre(Condition::LOWEST_FREQUENCY, Condition::RANDOM_DIMS));
  const v1::CoverageSweep coverage = ResolvedSpec(OutcomeSpec("coverage_sweep")).coverage_sweep();
  EXPECT_THAT(coverage.coverages(), ElementsAre(0.3, 0.5, 1.0));
  EXPECT_THAT(coverage.conditions(), ElementsAre(Condition::LOWEST_FREQUENCY, Condition::HIGHEST_FREQUENCY));
  const v1::ContextSweep context = ResolvedSpec(OutcomeSpec("context_sweep")).context_sweep();
  EXPECT_THAT(context.conditions(), ElementsAre(Condition::LOWEST_FREQUENCY, Condition::HIGHEST_FREQUENCY));
  EXPECT_EQ(context.dims_share(), 0.125);
}

TEST(OutcomeResolve, TheDefaultNeedlesArePerContextLength) {
  ModelFacts model = PatchModel();
  model.config.set_max_positions(8256);
  const std::string heads = std::string("heads { ") + kTwoHeads + " }";
  const v1::Needles knockout =
      Resolved("name: 'x' model: 'toy' knockout { " + heads + " needles { haystack { generated {} } } }",
               FakeCatalogue({model}))
          .resolved.knockout()
          .needles();
  EXPECT_THAT(knockout.context_lengths(), ElementsAre(1024, 2048, 4096));
  EXPECT_EQ(knockout.samples_per_cell() * knockout.depths_size(), 50);
  const v1::Needles patch = Resolved("name: 'x' model: 'toy' patch { " + heads +
                                         " needles { depths: 0.5 haystack { generated {} } } }",
                                     FakeCatalogue({model}))
                                .resolved.patch()
                                .needles();
  EXPECT_THAT(patch.context_lengths(), ElementsAre(4096));
  EXPECT_EQ(patch.samples_per_cell(), 200);
}

TEST(OutcomeResolve, AControlIsAskedForByEither) {
  const v1::Patch by_control =
      ResolvedSpec(
          OutcomeSpec("patch", "conditions: LOWEST_FREQUENCY controls { layer_matched { draws: 2 } }"))
          .patch();
  EXPECT_THAT(by_control.conditions(),
              ElementsAre(Condition::LOWEST_FREQUENCY, Condition::LAYER_MATCHED_CONTROL));
  const v1::Patch by_condition =
      ResolvedSpec(OutcomeSpec("patch", "conditions: LAYER_MATCHED_CONTROL controls { random {} }")).patch();
  ASSERT_EQ(by_condition.controls_size(), 2);
  EXPECT_TRUE(by_condition.controls(1).has_layer_matched());
}

TEST(OutcomeResolve, OrderMovesNothing) {
  EXPECT_EQ(Resolved(OutcomeSpec("coverage_sweep", "coverages: [1, 0.5]"), PatchCatalogue()).spec_hash,
            Resolved(OutcomeSpec("coverage_sweep", "coverages: [0.5, 1]"), PatchCatalogue()).spec_hash);
}

TEST(OutcomeResolve, RefusesByField) {
  const std::string all_of_a_layer =
      "list { head { layer: 0 head: 0 } head { layer: 0 head: 1 } head { layer: 0 head: 2 } head { layer: 0 "
      "head: 3 } head { layer: 1 head: 0 } }";
  const std::pair<std::string, const char*> refusals[] = {
      {OutcomeSpec("knockout", "", ""), "knockout.heads: name the heads"},
      {OutcomeSpec("knockout", "controls { random { draws: 9 } }"),
       "knockout.controls[0].random.draws: give 10 to 1000 draws"},
      {OutcomeSpec("knockout", "", all_of_a_layer), "knockout.controls[0].random: of model toy 3 others are"},
      {OutcomeSpec("knockout", "positions: ALL position_range { first: 0 last: 3 }"),
       "knockout.positions: excludes position_range"},
      {OutcomeSpec("knockout", "position_range { first: 5 last: 3 }"),
       "knockout.position_range: is first and last position"},
      {OutcomeSpec("knockout", "position_range { first: 128 last: 130 }"),
       "knockout.position_range: begins behind the prompts of 128 tokens"},
      {OutcomeSpec(
           "patch",
           "position_range { first: 64 last: 70 } perplexity { prompts { generated { count: 8 tokens: "
           "64 } } }"),
       "patch.position_range: begins behind a prompt of perplexity.prompts, of 64 tokens"},
      {OutcomeSpec("knockout",
                   "positions: QUESTION perplexity { prompts { generated { count: 8 tokens: 64 } } }"),
       "knockout.perplexity: plain text has no question"},
      {OutcomeSpec("knockout", "perplexity {}"), "knockout.perplexity.prompts: say where the prompts"},
      {OutcomeSpec("patch", "", all_of_a_layer),
       "patch.controls[0].layer_matched: of model toy layer 0 has 0"},
      {OutcomeSpec("patch", "dims: 2 dims_share: 0.125"), "patch.dims: excludes dims_share"},
      {OutcomeSpec("patch", "dims: 3"),
       "patch.dims: a head of model toy has 16 dimensions; conditions by "
       "frequency take whole pairs: an even number, 2 to 16; 2 or 4 would do"},
      {OutcomeSpec("patch", "dims: 18 "), "16 would do"},
      {OutcomeSpec("patch", "conditions: [LOWEST_FREQUENCY, LOWEST_FREQUENCY]"),
       "patch.conditions[1]: is named twice"},
      {OutcomeSpec("patch", "conditions: LOWEST_FREQUENCY random_dims {}"),
       "patch.random_dims: says how RANDOM_DIMS are drawn"},
      {OutcomeSpec("patch", "random_dims { draws: 0 }"), "patch.random_dims.draws: give 1 to 1000 draws"},
      {OutcomeSpec("dose_sweep", "dims_shares: [0.125, 0.1]"), "dose_sweep.dims_shares[1]: gives 1.6"},
      {OutcomeSpec("dose_sweep", "dims_shares: [0.125, 0.125]"), "dose_sweep.dims_shares[1]: stands there"},
      {OutcomeSpec("coverage_sweep", "coverages: [0, 0.5]"), "coverage_sweep.coverages[0]: a coverage is"},
      {OutcomeSpec("per_head_patch", "dims_share: 0.2"), "per_head_patch.dims_share: gives 3.2"},
      {OutcomeSpec("patch",
                   "random_dims { draws: 1000 } controls { layer_matched { draws: 1000 } } controls { "
                   "random { draws: 1000 } }",
                   kTwoHeads,
                   "context_lengths: 128 depths: 0.5 samples_per_cell: 400 haystack { generated {} }"),
       "patch.needles.samples_per_cell: under 3005 conditions"},
  };
  for (const auto& [spec, problem] : refusals) {
    EXPECT_THAT(ProblemsOf(spec, PatchCatalogue()), ElementsAre(HasSubstr(problem))) << spec;
  }
}

// A count of conditions that wraps around would pass for a small one.
TEST(OutcomeResolve, NoSetIsTakenForMoreHeadsThanTheModelHas) {
  Problems problems;
  const std::string detect = "experiments { name: 'd' model: 'toy' retrieval_detection { needles { " +
                             std::string(kTenNeedles) + " } } } experiments { ";
  const ResolvedSubmission study = ResolveSubmission(
      StudyOf(detect +
              OutcomeSpec("per_head_patch", "conditions: [LOWEST_FREQUENCY, HIGHEST_FREQUENCY]",
                          "retrieval { experiment: 'd' top: 9223372036854775807 }") +
              " }"),
      PatchCatalogue(), problems);
  ASSERT_THAT(problems.problems(), IsEmpty());
  EXPECT_THAT(study.experiments[1].estimate.basis(), HasSubstr("17 conditions"));
}

TEST(OutcomeResolve, TooManyConditionsAreBlamedOnWhatMakesThem) {
  std::string coverages = "coverages: [";
  for (int i = 1; i < 3000; ++i) {
    absl::StrAppend(&coverages, i > 1 ? ", " : "", i / 3000.0);
  }
  EXPECT_THAT(ProblemsOf(OutcomeSpec("coverage_sweep", coverages + "]"), PatchCatalogue()),
              ElementsAre(HasSubstr("coverage_sweep.coverages: with every draw")));
}

TEST(OutcomeResolve, ConditionsWithoutFrequenciesTakeSingleDimensions) {
  EXPECT_THAT(
      ProblemsOf(OutcomeSpec("patch", "conditions: [LOWEST_UTILITY, RANDOM_DIMS] dims: 3"), PatchCatalogue()),
      IsEmpty());
  EXPECT_THAT(ProblemsOf(OutcomeSpec("patch", "conditions: RANDOM_DIMS random_dims { pairs: true } dims: 3"),
                         PatchCatalogue()),
              ElementsAre(HasSubstr("whole pairs")));
}

TEST(OutcomeResolve, LowRankTakesNeedles) {
  const v1::LowRank low_rank =
      ResolvedSpec(OutcomeSpec("low_rank",
                               "ranks: 2 perplexity { prompts { uniform_tokens { count: 8 tokens: "
                               "64 } } }"))
          .low_rank();
  EXPECT_EQ(low_rank.needles().samples_per_cell(), 10);
  EXPECT_EQ(low_rank.needles().code_length(), 5);
}

}  // namespace
}  // namespace ropelab::experiments
