#include <set>

#include "fakes.h"
#include "server/experiments/low_rank.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using Place = std::pair<int, int>;

std::string LowRank(const std::string& fields, const std::string& common = "model: 'toy'") {
  return "name: 'x' " + common +
         " low_rank { heads { list { head { layer: 1 head: 3 offset: 2 } head { layer: 0 head: 2 } } } "
         "perplexity { prompts { uniform_tokens { count: 10 tokens: 64 } } } " +
         fields + " }";
}

std::vector<Place> HeadsOf(const v1::Condition& condition) {
  std::vector<Place> heads;
  for (const v1::Head& head : condition.interventions(0).low_rank().heads().list().head()) {
    EXPECT_FALSE(head.has_offset()) << "an offset that is not read would make other work of it";
    heads.emplace_back(head.layer(), head.head());
  }
  return heads;
}

// The draws as numpy gives them. Of seed 42's ten, 4 and 6 repeat draw 2, and 7 repeats draw 5.
const std::vector<std::vector<Place>> kDistinct = {{{0, 2}, {1, 3}}, {{0, 1}, {1, 0}}, {{1, 0}, {1, 2}},
                                                   {{1, 1}, {1, 2}}, {{0, 1}, {1, 2}}, {{0, 0}, {1, 1}},
                                                   {{0, 1}, {1, 1}}, {{0, 0}, {1, 2}}};

TEST(LowRankPlan, BaselineThenPerRankTheNamedHeadsAndTheDistinctDraws) {
  FakeReadings none;
  const StagePlan plan =
      PlanOf(Resolved(LowRank("ranks: [1, 4] matrices: QUERY")), ContextOf({ToyModel()}), 1, none);
  ASSERT_THAT(plan, SizeIs(2));
  for (size_t block = 0; block < 2; ++block) {
    EXPECT_EQ(plan[block].model, "toy");
    const v1::ConditionOutcomes& outcomes = plan[block].measurement.condition_outcomes();
    EXPECT_EQ(outcomes.prompts().samples().first_sample(), 8 * static_cast<int64_t>(block));
    EXPECT_EQ(outcomes.prompts().samples().count(), block == 0 ? 8 : 2);
    ASSERT_EQ(outcomes.conditions_size(), 1 + 2 * 8);
    EXPECT_EQ(outcomes.conditions(0).interventions_size(), 0);
    for (int i = 0; i < 16; ++i) {
      const v1::Condition& condition = outcomes.conditions(1 + i);
      ASSERT_EQ(condition.interventions_size(), 1);
      EXPECT_EQ(condition.interventions(0).low_rank().rank(), i < 8 ? 1 : 4);
      EXPECT_THAT(condition.interventions(0).low_rank().matrices(), ElementsAre(v1::Matrix::QUERY));
      EXPECT_EQ(HeadsOf(condition), kDistinct[static_cast<size_t>(i % 8)]) << i;
    }
  }
}

TEST(LowRankPlan, OneStage) {
  FakeReadings none;
  EXPECT_TRUE(PlanOf(Resolved(LowRank("ranks: 2")), ContextOf({ToyModel()}), 2, none).empty());
}

TEST(LowRankPlan, SeedsDrawTheirOwnHeads) {
  FakeReadings none;
  const StagePlan plan =
      PlanOf(Resolved(LowRank("ranks: 2", "model: 'toy' seeds: [42, 7]")), ContextOf({ToyModel()}), 1, none);
  ASSERT_THAT(plan, SizeIs(4));
  const v1::ConditionOutcomes& seven = plan[2].measurement.condition_outcomes();
  EXPECT_EQ(seven.prompts().uniform().seed(), 7u);
  EXPECT_EQ(HeadsOf(seven.conditions(1)), kDistinct[0]);
  EXPECT_EQ(HeadsOf(seven.conditions(2)), (std::vector<Place>{{0, 3}, {1, 1}}));
}

TEST(LowRankPlan, ModelByModel) {
  ModelFacts other = ToyModel("other");
  other.weights_hash = std::string(64, 'f');
  FakeReadings none;
  const StagePlan plan =
      PlanOf(Resolved(LowRank("ranks: 2", "models: ['toy', 'other']"), FakeCatalogue({ToyModel(), other})),
             ContextOf({ToyModel(), other}), 1, none);
  ASSERT_THAT(plan, SizeIs(4));
  EXPECT_EQ(plan[1].model, "toy");
  EXPECT_EQ(plan[2].model, "other");
  EXPECT_EQ(plan[2].measurement.model().weights_hash(), std::string(64, 'f'));
}

struct Found {
  int64_t layer, head;
  double score;
  bool dominant;
};
Context Detected(const std::vector<Found>& rows) {
  TableBuilder table("slash_heads", WithLeadingColumns({{"seed", v1::Column::INTEGER, true},
                                                        {"layer", v1::Column::INTEGER, true},
                                                        {"head", v1::Column::INTEGER, true},
                                                        {"best_offset", v1::Column::INTEGER, false},
                                                        {"score", v1::Column::REAL, false},
                                                        {"dominant", v1::Column::BOOLEAN, false}}));
  for (const Found& row : rows) {
    table.Text("toy").Text("FLOAT32").Text("c").Integer(42).Integer(row.layer).Integer(row.head).Integer(1);
    table.Real(row.score).Boolean(row.dominant);
  }
  Context context = ContextOf({ToyModel()});
  context.earlier.push_back({"detect", "digest", {table.Finish(true).slice}});
  return context;
}

absl::StatusOr<std::optional<StagePlan>> PlanFound(const std::string& choice, const std::string& fields,
                                                   const Context& context) {
  auto spec = FromText<v1::ExperimentSpec>(
      "name: 'x' models: 'toy' seeds: 42 low_rank { heads { slash_dominant { experiment: 'detect' " + choice +
      " } } ranks: 2 perplexity { prompts { uniform_tokens { count: 3 tokens: 64 } } } " + fields + " }");
  Problems problems;
  FindKind("low_rank")->experiment->Resolve(spec, Facts{{ToyModel()}, {}}, problems);
  EXPECT_TRUE(problems.empty());
  FakeReadings none;
  return LowRankExperiment().Plan(spec, context, 1, none);
}

const std::vector<Found> kThreeDominant = {
    {0, 0, 0.9, true}, {0, 1, 0.5, true}, {0, 2, 0.01, false}, {1, 2, 0.4, true}, {1, 3, 0.05, false}};

// top: 1 names L0H0 alone, but L0H1 and L1H2 slash as well: no control may hold them.
TEST(LowRankPlan, ControlsAvoidEveryDetectedHead) {
  const auto plan = PlanFound("top: 1", "controls { random { draws: 40 } }", Detected(kThreeDominant));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const v1::ConditionOutcomes& outcomes = (**plan)[0].measurement.condition_outcomes();
  EXPECT_EQ(HeadsOf(outcomes.conditions(1)), (std::vector<Place>{{0, 0}}));
  std::set<Place> drawn;
  for (int i = 2; i < outcomes.conditions_size(); ++i) {
    ASSERT_THAT(HeadsOf(outcomes.conditions(i)), SizeIs(1));
    drawn.insert(HeadsOf(outcomes.conditions(i))[0]);
  }
  EXPECT_EQ(drawn, (std::set<Place>{{0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 3}}));
}

// A lower threshold names heads that the detection does not call dominant.
TEST(LowRankPlan, ControlsAvoidTheNamedHeadsBeyondTheDetectedOnes) {
  const auto plan =
      PlanFound("threshold: 0.03", "controls { random { draws: 40 } }", Detected(kThreeDominant));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const v1::ConditionOutcomes& outcomes = (**plan)[0].measurement.condition_outcomes();
  EXPECT_THAT(HeadsOf(outcomes.conditions(1)), SizeIs(4));
  // Four heads are left, so every draw is the same.
  ASSERT_EQ(outcomes.conditions_size(), 3);
  EXPECT_EQ(HeadsOf(outcomes.conditions(2)), (std::vector<Place>{{0, 2}, {0, 3}, {1, 0}, {1, 1}}));
}

TEST(LowRankPlan, NoHeadFoundIsTheBaselineAlone) {
  const auto plan = PlanFound("", "", Detected({{0, 0, 0.01, false}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_THAT(**plan, SizeIs(1));
  EXPECT_EQ((**plan)[0].measurement.condition_outcomes().conditions_size(), 1);
}

TEST(LowRankPlan, AFoundSetThatNoControlCanMatchNamesTheLayer) {
  const Context found = Detected({{0, 0, 0.9, true}, {0, 1, 0.9, true}, {0, 2, 0.9, true}});
  const auto refused = PlanFound("", "controls { layer_matched {} }", found);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("layer 0 has 1 of 3 heads left"));
  const auto partial = PlanFound("", "controls { layer_matched { shortfall: REPORT_PARTIAL } }", found);
  ASSERT_TRUE(partial.ok()) << partial.status();
  const v1::ConditionOutcomes& outcomes = (**partial)[0].measurement.condition_outcomes();
  ASSERT_EQ(outcomes.conditions_size(), 3);
  EXPECT_EQ(HeadsOf(outcomes.conditions(2)), (std::vector<Place>{{0, 3}}));
}

TEST(LowRankPlan, ConditionsThatEveryTaskWouldCarryAreBounded) {
  ModelFacts large = ToyModel();
  large.config.set_layers(100);
  large.config.set_query_heads(100);
  std::string heads;
  for (int head = 0; head < 100; ++head) {
    heads += "head { layer: 50 head: " + std::to_string(head) + " } ";
  }
  FakeReadings none;
  const ResolvedExperiment experiment =
      Resolved("name: 'x' model: 'toy' low_rank { heads { list { " + heads +
                   "} } ranks: [1, 2, 3] controls { random { draws: 1000 } } perplexity { prompts { "
                   "uniform_tokens { count: 1 tokens: 64 } } } }",
               FakeCatalogue({large}));
  const auto plan = LowRankExperiment().Plan(experiment.resolved, ContextOf({large}), 1, none);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("3004 conditions of 100 heads of model toy"));
}

TEST(LowRankPlan, SampledPromptsAreDrawnFirst) {
  FakeReadings readings;
  const ResolvedExperiment experiment = Resolved(
      "name: 'x' model: 'toy' low_rank { heads { list { head { layer: 0 head: 0 } } } ranks: 1 perplexity { "
      "prompts { sampled { count: 1 tokens: 3 } } } }");
  const Context context = ContextOf({ToyModel()});
  const StagePlan drawn = PlanOf(experiment, context, 1, readings);
  ASSERT_THAT(drawn, SizeIs(1));
  ASSERT_TRUE(drawn[0].measurement.has_sampling());
  readings.Add(1, drawn[0].measurement,
               {FromText<v1::Reading>("sampled_tokens { sample: 0 ids { ids: [1, 50, 60] } }")});
  const StagePlan plan = PlanOf(experiment, context, 2, readings);
  ASSERT_THAT(plan, SizeIs(1));
  EXPECT_THAT(plan[0].measurement.condition_outcomes().prompts().given().prompts(0).ids(),
              ElementsAre(1, 50, 60));
  EXPECT_TRUE(PlanOf(experiment, context, 3, readings).empty());
}

// 23 conditions (the model as it is; per rank the named heads and ten draws) of 10 prompts; two tasks.
TEST(LowRankPlan, CostCountsEveryConditionAsAPass) {
  const ResolvedExperiment experiment = Resolved(LowRank("ranks: [1, 2]"));
  const v1::Estimate estimate =
      FindKind("low_rank")->experiment->Cost(experiment.resolved, Facts{{ToyModel()}, {}});
  EXPECT_EQ(estimate.tasks(), 2);
  // Per prompt 2 * 100000 * 64 + 2 * 2 * 64 * 64^2.
  EXPECT_DOUBLE_EQ(estimate.device_seconds(), 23 * 10 * (12800000.0 + 1048576.0) / 5e10);
  EXPECT_THAT(estimate.basis(), HasSubstr("23 conditions"));
}

}  // namespace
}  // namespace ropelab::experiments
