#include "common/service/canonical_hash.h"
#include "fakes.h"
#include "server/experiments/slash_detection.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ResolvedExperiment UniformSpec(int count, const std::string& fields = "offsets { last: 9 }",
                               const std::string& common = "") {
  return Resolved(
      "name: 'x' model: 'toy' " + common +
      " slash_detection { prompts { uniform_tokens { tokens: 64 special_tokens: false bos: ALWAYS count: " +
      std::to_string(count) + " } } " + fields + " }");
}

std::vector<std::string> KeysOf(const StagePlan& plan) {
  std::vector<std::string> keys;
  for (const PlannedTask& task : plan) {
    keys.push_back(CanonicalHash(task.measurement));
  }
  return keys;
}

class SlashPlan : public testing::Test {
 protected:
  Context context_ = ContextOf({ToyModel()});
  FakeReadings none_;
};

TEST_F(SlashPlan, TwelveSamplesAreABlockOfEightAndABlockOfFour) {
  const StagePlan plan = PlanOf(UniformSpec(12), context_, 1, none_);
  ASSERT_EQ(plan.size(), 2u);
  const v1::SampleBlock& first = plan[0].measurement.slash_profile().prompts().samples();
  const v1::SampleBlock& second = plan[1].measurement.slash_profile().prompts().samples();
  EXPECT_EQ(first.first_sample(), 0);
  EXPECT_EQ(first.count(), 8);
  EXPECT_EQ(second.first_sample(), 8);
  EXPECT_EQ(second.count(), 4);
  EXPECT_EQ(plan[0].model, "toy");
}

TEST_F(SlashPlan, AWholeBlockIsTheSameTaskInALargerRun) {
  const auto small = KeysOf(PlanOf(UniformSpec(12), context_, 1, none_));
  const auto large = KeysOf(PlanOf(UniformSpec(16), context_, 1, none_));
  EXPECT_EQ(small[0], large[0]);
  EXPECT_NE(small[1], large[1]);
}

TEST_F(SlashPlan, NamesTagsAndPrioritiesAreNoPartOfATask) {
  EXPECT_EQ(KeysOf(PlanOf(UniformSpec(8), context_, 1, none_)),
            KeysOf(PlanOf(UniformSpec(8, "offsets { last: 9 } threshold: 0.9", "tags: 't' priority: BATCH"),
                          context_, 1, none_)));
}

// The hash is that of the message written out by hand, by another implementation of the canonical walk.
TEST_F(SlashPlan, ATaskKeepsItsKey) {
  EXPECT_EQ(KeysOf(PlanOf(UniformSpec(12), context_, 1, none_))[1],
            "60e49901d8c51d9ec84b5dc902cd1ad8c6e69e0ce6ff7307a0f829553aa8d890");
}

TEST_F(SlashPlan, UniformPromptsExcludeSpecialTokensInAscendingOrder) {
  const v1::UniformPrompts prompts =
      PlanOf(UniformSpec(8), context_, 1, none_)[0].measurement.slash_profile().prompts().uniform();
  EXPECT_THAT(prompts.excluded_ids(), ElementsAre(0, 1, 2));
  EXPECT_EQ(prompts.vocabulary(), 100);
  EXPECT_EQ(prompts.tokens(), 64);
  EXPECT_EQ(prompts.bos_token_id(), 1);
}

TEST_F(SlashPlan, EveryModelAndSeedHasItsOwnTasks) {
  ModelFacts other = ToyModel("other");
  other.weights_hash = std::string(64, 'c');
  const ResolvedExperiment experiment = Resolved(
      "name: 'x' models: ['toy', 'other'] seeds: [5, 6] slash_detection { prompts { uniform_tokens { count: "
      "9 tokens: "
      "64 } } rows: COMMON }",
      FakeCatalogue({ToyModel(), other}));
  const StagePlan plan = PlanOf(experiment, ContextOf({ToyModel(), other}), 1, none_);
  ASSERT_EQ(plan.size(), 2u * 2 * 2 * 2);  // models, seeds, ranges, blocks
  EXPECT_EQ(plan[0].measurement.slash_profile().last_offset(), 4);
  EXPECT_EQ(plan[0].measurement.slash_profile().rows(), v1::Rows::COMMON);
  EXPECT_EQ(plan[2].measurement.slash_profile().last_offset(), 9);
  EXPECT_EQ(plan[2].measurement.slash_profile().rows(), v1::Rows::ALL);
  EXPECT_EQ(plan[4].measurement.slash_profile().prompts().uniform().seed(), 6u);
  EXPECT_EQ(plan[8].model, "other");
  EXPECT_EQ(plan[8].measurement.model().weights_hash(), std::string(64, 'c'));
  EXPECT_EQ(experiment.estimate.tasks(), 16);
}

TEST_F(SlashPlan, GivenIdsTravelWithTheirBlock) {
  std::string prompts;
  for (int i = 0; i < 9; ++i) {
    prompts += "prompts { ids: [1, 2, 3, 4, 5, 6, 7, 8, 9, " + std::to_string(10 + i) + "] } ";
  }
  const StagePlan plan =
      PlanOf(Resolved("name: 'x' model: 'toy' slash_detection { prompts { token_ids { " + prompts + " } } }"),
             context_, 1, none_);
  ASSERT_EQ(plan.size(), 2u);
  const v1::PromptBlock& second = plan[1].measurement.slash_profile().prompts();
  ASSERT_EQ(second.given().prompts_size(), 1);
  EXPECT_EQ(second.given().prompts(0).ids(9), 18);
  EXPECT_EQ(second.samples().first_sample(), 8);
}

TEST_F(SlashPlan, ASeedIsNoPartOfATaskOnGivenIds) {
  const auto keys = [&](const std::string& seed) {
    return KeysOf(PlanOf(
        Resolved(seed +
                 " name: 'x' model: 'toy' slash_detection { prompts { token_ids { prompts { ids: [1, 2, "
                 "3, 4, 5, 6, 7, 8, 9, 10] } } } }"),
        context_, 1, none_));
  };
  EXPECT_EQ(keys("seeds: 1"), keys("seeds: 2"));
}

TEST_F(SlashPlan, UniformPromptsNeedOneStage) {
  const auto plan =
      FindKind("slash_detection")->experiment->Plan(UniformSpec(8).resolved, context_, 2, none_);
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->has_value());
}

TEST_F(SlashPlan, WaitsForTheWeightsHash) {
  context_.models[0].weights_hash.clear();
  const auto plan =
      FindKind("slash_detection")->experiment->Plan(UniformSpec(8).resolved, context_, 1, none_);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("toy"));
}

class SampledPlan : public SlashPlan {
 protected:
  // What a sampling task would give: sample s reads 1, s, s, ...
  static std::vector<v1::Reading> Drawn(const v1::Sampling& sampling, int64_t tokens) {
    std::vector<v1::Reading> readings;
    for (int64_t i = 0; i < sampling.samples().count(); ++i) {
      v1::SampledTokens& drawn = *readings.emplace_back().mutable_sampled_tokens();
      drawn.set_sample(sampling.samples().first_sample() + i);
      for (int64_t t = 0; t < tokens; ++t) {
        drawn.mutable_ids()->add_ids(t == 0 ? 1 : static_cast<int32_t>(drawn.sample()));
      }
    }
    return readings;
  }
  ResolvedExperiment experiment_ = Resolved(
      "name: 'x' model: 'toy' slash_detection { prompts { sampled { count: 12 tokens: 96 temperature: 0.75 } "
      "} }");
};

TEST_F(SampledPlan, TheFirstStageDrawsAlignedBlocks) {
  const StagePlan plan = PlanOf(experiment_, context_, 1, none_);
  ASSERT_EQ(plan.size(), 2u);
  // By another implementation of the canonical walk, from the message written out by hand.
  EXPECT_EQ(KeysOf(plan)[0], "dc0448e7c59f6c14df9ab9e062778ebbbb485e48a9b2aed2bfd732f876a8ae62");
  EXPECT_EQ(plan[1].measurement.sampling().samples().first_sample(), 8);
  EXPECT_EQ(plan[1].measurement.sampling().samples().count(), 4);
}

TEST_F(SampledPlan, TheSecondStageMeasuresWhatWasDrawn) {
  FakeReadings readings;
  for (const PlannedTask& task : PlanOf(experiment_, context_, 1, none_)) {
    readings.Add(1, task.measurement, Drawn(task.measurement.sampling(), 96));
  }
  const StagePlan plan = PlanOf(experiment_, context_, 2, readings);
  ASSERT_EQ(plan.size(), 2u);
  const v1::PromptBlock& second = plan[1].measurement.slash_profile().prompts();
  EXPECT_EQ(second.samples().first_sample(), 8);
  ASSERT_EQ(second.given().prompts_size(), 4);
  EXPECT_EQ(second.given().prompts(3).ids_size(), 96);
  EXPECT_EQ(second.given().prompts(3).ids(95), 11);
  EXPECT_EQ(experiment_.estimate.tasks(), 4);
  const auto third =
      FindKind("slash_detection")->experiment->Plan(experiment_.resolved, context_, 3, readings);
  ASSERT_TRUE(third.ok());
  EXPECT_FALSE(third->has_value());
}

TEST_F(SampledPlan, RefusesASamplingTaskThatGaveTooLittle) {
  FakeReadings readings;
  for (const PlannedTask& task : PlanOf(experiment_, context_, 1, none_)) {
    readings.Add(1, task.measurement, Drawn(task.measurement.sampling(), 95));
  }
  const auto plan =
      FindKind("slash_detection")->experiment->Plan(experiment_.resolved, context_, 2, readings);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("gave 95 tokens for sample 0, not 96"));
}

}  // namespace
}  // namespace ropelab::experiments
