#include "fakes.h"
#include "server/experiments/rank_analysis.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {
namespace {

using testing::HasSubstr;

std::string Rank(
    const std::string& fields, const std::string& lead = "",
    const std::string& heads = "list { head { layer: 1 head: 3 offset: 7 } head { layer: 0 head: 2 } }") {
  return "name: 'x' model: 'toy' " + lead + " rank_analysis { heads { " + heads +
         " } prompts { uniform_tokens { count: 12 tokens: 64 } } " + fields + " }";
}

StagePlan FirstStage(const std::string& spec, const Context& context = ContextOf({ToyModel()})) {
  FakeReadings none;
  return PlanOf(Resolved(spec), context, 1, none);
}

TEST(RankPlan, WeightsOnceThenPerSeedTheVocabularyAndTheBlocks) {
  const StagePlan plan = FirstStage(Rank("energy: 0.9", "seeds: [7, 8]"));
  ASSERT_EQ(plan.size(), 7u);
  const v1::WeightProfile& weights = plan[0].measurement.weight_profile();
  EXPECT_EQ(weights.energy(), 0.9);
  EXPECT_FALSE(weights.has_vocabulary());
  for (int seed = 0; seed < 2; ++seed) {
    const size_t first = 1 + 3 * static_cast<size_t>(seed);
    const v1::WeightProfile& vocabulary = plan[first].measurement.weight_profile();
    EXPECT_EQ(vocabulary.energy(), 0.9);
    EXPECT_EQ(vocabulary.vocabulary().tokens(), 100);
    EXPECT_EQ(vocabulary.vocabulary().random_vectors(), 100);
    EXPECT_EQ(vocabulary.vocabulary().seed(), 7u + static_cast<uint64_t>(seed));
    EXPECT_TRUE(vocabulary.vocabulary().norm_weight());
    for (int block = 0; block < 2; ++block) {
      const v1::QueryKeyProfile& profile =
          plan[first + 1 + static_cast<size_t>(block)].measurement.query_key_profile();
      EXPECT_EQ(profile.energy(), 0.9);
      EXPECT_EQ(profile.hidden_stage(), v1::HiddenStage::NORMED);
      EXPECT_EQ(profile.prompts().samples().first_sample(), 8 * block);
      EXPECT_EQ(profile.prompts().samples().count(), block == 0 ? 8 : 4);
      EXPECT_EQ(profile.prompts().uniform().seed(), 7u + static_cast<uint64_t>(seed));
      EXPECT_EQ(profile.heads_size(), 0);
      EXPECT_EQ(profile.view_rows(), 0);
      EXPECT_FALSE(profile.has_hidden_view());
    }
  }
  for (const PlannedTask& task : plan) {
    EXPECT_EQ(task.model, "toy");
    EXPECT_EQ(task.measurement.model().weights_hash(), std::string(64, 'a'));
  }
}

TEST(RankPlan, OneStage) {
  FakeReadings none;
  const ResolvedExperiment experiment = Resolved(Rank(""));
  const Context context = ContextOf({ToyModel()});
  EXPECT_TRUE(PlanOf(experiment, context, 2, none).empty());
}

// So the others are the tasks of an analysis without views.
TEST(RankPlan, OnlyTheFirstBlockIsAskedForViews) {
  const StagePlan with = FirstStage(Rank("block: 16 hidden_view: PCA")), without = FirstStage(Rank(""));
  ASSERT_EQ(with.size(), 4u);
  ASSERT_EQ(without.size(), 4u);
  const v1::QueryKeyProfile& first = with[2].measurement.query_key_profile();
  EXPECT_EQ(first.view_rows(), 16);
  EXPECT_EQ(first.hidden_view(), v1::HiddenView::PCA);
  ASSERT_EQ(first.heads_size(), 2);
  EXPECT_EQ(first.heads(0).layer(), 0);
  EXPECT_EQ(first.heads(0).head(), 2);
  EXPECT_EQ(first.heads(1).layer(), 1);
  EXPECT_EQ(first.heads(1).head(), 3);
  EXPECT_FALSE(first.heads(1).has_offset()) << "an offset that is not read would make other work of it";
  for (const size_t same : {0u, 1u, 3u}) {
    EXPECT_EQ(with[same].measurement.SerializeAsString(), without[same].measurement.SerializeAsString());
  }
}

TEST(RankPlan, WithoutTheVocabularyOneTaskLess) {
  const StagePlan plan = FirstStage(Rank("vocabulary: false"));
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_TRUE(plan[1].measurement.has_query_key_profile());
}

TEST(RankPlan, ModelByModel) {
  ModelFacts other = ToyModel("other");
  other.weights_hash = std::string(64, 'f');
  other.config.set_vocabulary(50);
  FakeReadings none;
  const ResolvedExperiment experiment = Resolved(
      "name: 'x' models: ['toy', 'other'] rank_analysis { heads { list { head { layer: 0 head: 0 } } } "
      "prompts { uniform_tokens { count: 3 tokens: 9 } } }",
      FakeCatalogue({ToyModel(), other}));
  const StagePlan plan = PlanOf(experiment, ContextOf({ToyModel(), other}), 1, none);
  ASSERT_EQ(plan.size(), 6u);
  for (size_t task = 0; task < 6; ++task) {
    EXPECT_EQ(plan[task].model, task < 3 ? "toy" : "other");
  }
  EXPECT_EQ(plan[4].measurement.weight_profile().vocabulary().tokens(), 50);
}

// The table of an earlier detection: the four heads of layer 0, of which `dominant` are.
Context Found(int64_t dominant, ModelFacts model = ToyModel()) {
  TableBuilder table("slash_heads", WithLeadingColumns({{"seed", v1::Column::INTEGER, true},
                                                        {"layer", v1::Column::INTEGER, true},
                                                        {"head", v1::Column::INTEGER, true},
                                                        {"best_offset", v1::Column::INTEGER, false},
                                                        {"score", v1::Column::REAL, false},
                                                        {"dominant", v1::Column::BOOLEAN, false}}));
  for (int64_t head = 0; head < 4; ++head) {
    table.Text(model.name).Text("FLOAT32").Text("c").Integer(42).Integer(0).Integer(head).Integer(3);
    table.Real(0.5).Boolean(head < dominant);
  }
  Context context = ContextOf({std::move(model)});
  context.earlier.push_back({"detect", "digest", {table.Finish(true).slice}});
  return context;
}

// The rank analysis of a study, resolved by itself: its source is checked elsewhere.
v1::ExperimentSpec OfFound(const std::string& fields, const ModelFacts& model = ToyModel()) {
  auto spec = FromText<v1::ExperimentSpec>(
      "name: 'x' models: 'toy' seeds: 42 rank_analysis { heads { slash_dominant "
      "{ experiment: 'detect' } } prompts { uniform_tokens { count: 9 tokens: "
      "1024 } } " +
      fields + " }");
  Problems problems;
  FindKind("rank_analysis")->experiment->Resolve(spec, Facts{{model}, {}}, problems);
  EXPECT_TRUE(problems.empty());
  return spec;
}

TEST(RankPlan, ViewsAreOfTheHeadsThatWereFound) {
  FakeReadings none;
  const auto plan = RankAnalysisExperiment().Plan(OfFound("block: 16"), Found(2), 1, none);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((**plan)[2].measurement.query_key_profile().heads_size(), 2);
}

TEST(RankPlan, NoHeadFoundIsNoView) {
  FakeReadings none;
  const auto plan = RankAnalysisExperiment().Plan(OfFound("block: 16"), Found(0), 1, none);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const v1::QueryKeyProfile& first = (**plan)[2].measurement.query_key_profile();
  EXPECT_EQ(first.view_rows(), 0);
  EXPECT_FALSE(first.has_hidden_view());
}

TEST(RankPlan, TooManyFoundHeadsForAViewSayWhatToDo) {
  ModelFacts wide = ToyModel();
  wide.config.set_head_dim(16384);
  FakeReadings none;
  const auto plan = RankAnalysisExperiment().Plan(OfFound("block: 1024", wide), Found(4, wide), 1, none);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plan.status().message()),
              HasSubstr("rank_analysis.block: 1024 rows of the 4 heads found on model toy take 576 MiB"));
}

TEST(RankPlan, SampledPromptsAreDrawnFirst) {
  FakeReadings readings;
  const ResolvedExperiment experiment = Resolved(
      "name: 'x' model: 'toy' rank_analysis { heads { list { head { layer: 0 head: 0 } } } prompts { sampled "
      "{ "
      "count: 2 tokens: 3 } } }");
  const Context context = ContextOf({ToyModel()});
  const StagePlan drawn = PlanOf(experiment, context, 1, readings);
  ASSERT_EQ(drawn.size(), 1u);
  ASSERT_TRUE(drawn[0].measurement.has_sampling());
  std::vector<v1::Reading> ids(2);
  for (int sample = 0; sample < 2; ++sample) {
    v1::SampledTokens& tokens = *ids[static_cast<size_t>(sample)].mutable_sampled_tokens();
    tokens.set_sample(sample);
    for (const int id : {1, 50 + sample, 60}) {
      tokens.mutable_ids()->add_ids(id);
    }
  }
  readings.Add(1, drawn[0].measurement, ids);
  const StagePlan plan = PlanOf(experiment, context, 2, readings);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[2].measurement.query_key_profile().prompts().given().prompts(1).ids(1), 51);
  EXPECT_TRUE(PlanOf(experiment, context, 3, readings).empty());
}

}  // namespace
}  // namespace ropelab::experiments
