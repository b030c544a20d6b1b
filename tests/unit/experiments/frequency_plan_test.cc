#include "fakes.h"
#include "server/experiments/frequency_analysis.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string FrequencyOf(const std::string& fields, const std::string& lead = "",
                        const std::string& prompts = "uniform_tokens { count: 12 tokens: 64 }") {
  return "name: 'x' model: 'toy' " + lead +
         " frequency_analysis { heads { list { head { layer: 1 head: 3 offset: 7 } head { layer: 0 head: 2 "
         "offset: 2 } } } prompts { " +
         prompts + " } " + fields + " }";
}

// A profile whose sums over a block of c prompts are c times simple numbers of the head.
void AddProfile(const v1::Measurement& measurement, FakeReadings& readings, int64_t stage) {
  std::vector<v1::Reading> said;
  const v1::FrequencyProfile& profile = measurement.frequency_profile();
  const double count = static_cast<double>(profile.prompts().samples().count());
  for (const v1::MeasuredHead& head : profile.heads()) {
    v1::HeadFrequencies& frequencies = *said.emplace_back().mutable_head_frequencies();
    frequencies.set_layer(head.layer());
    frequencies.set_head(head.head());
    frequencies.set_prompts(profile.prompts().samples().count());
    frequencies.set_attention_factor(1);
    for (int pair = 0; pair < 8; ++pair) {
      frequencies.add_theta(1.0 / (1 + pair));
      frequencies.add_mean_inp(count);
      frequencies.add_mean_abs_inp(count);
      frequencies.add_inp_at_lag(count);
      for (const int part : {0, 1}) {
        frequencies.mutable_means()->add_query(count * (head.head() + 0.5 * pair + 0.25 * part));
        frequencies.mutable_means()->add_key(-count * (head.layer() + 0.5 * pair));
      }
    }
  }
  readings.Add(stage, measurement, std::move(said));
}

TEST(FrequencyPlan, ProfilesThenRemovalsPerSeedAndBlock) {
  FakeReadings none;
  const ResolvedExperiment experiment = Resolved(
      FrequencyOf("removals { bands: true per_band: PROPORTIONAL } rows: [40, 64]", "seeds: [7, 8]"));
  const StagePlan plan = PlanOf(experiment, ContextOf({ToyModel()}), 1, none);
  ASSERT_EQ(plan.size(), 8u);
  for (size_t task = 0; task < 8; ++task) {
    const v1::Measurement& measurement = plan[task].measurement;
    EXPECT_EQ(plan[task].model, "toy");
    EXPECT_EQ(measurement.model().weights_hash(), std::string(64, 'a'));
    const bool profile = task % 4 < 2;
    ASSERT_EQ(measurement.has_frequency_profile(), profile) << task;
    const v1::PromptBlock& prompts =
        profile ? measurement.frequency_profile().prompts() : measurement.slash_profile().prompts();
    EXPECT_EQ(prompts.samples().first_sample(), task % 2 == 0 ? 0 : 8);
    EXPECT_EQ(prompts.samples().count(), task % 2 == 0 ? 8 : 4);
    EXPECT_EQ(prompts.uniform().seed(), task < 4 ? 7u : 8u);
  }
  const v1::FrequencyProfile& profile = plan[0].measurement.frequency_profile();
  EXPECT_THAT(profile.rows(), ElementsAre(39, 63)) << "rows of a measurement count from 0";
  EXPECT_EQ(profile.skip_first(), 4);
  ASSERT_EQ(profile.heads_size(), 2);
  EXPECT_EQ(profile.heads(0).layer(), 0);
  EXPECT_EQ(profile.heads(0).offset(), 2);
  EXPECT_EQ(profile.heads(1).head(), 3);
  EXPECT_EQ(profile.heads(1).offset(), 7);
  const v1::SlashProfile& scores = plan[2].measurement.slash_profile();
  EXPECT_EQ(scores.first_offset(), 2);
  EXPECT_EQ(scores.last_offset(), 7);
  EXPECT_EQ(scores.skip_first(), 4);
  EXPECT_EQ(scores.rows(), v1::Rows::ALL);
  EXPECT_EQ(scores.denominator(), v1::Denominator::KEPT);
  EXPECT_EQ(scores.map_size(), 0);
  ASSERT_EQ(scores.heads_size(), 2);
  EXPECT_EQ(scores.heads(0).offset(), 2);
  ASSERT_EQ(scores.removals_size(), 4);
  EXPECT_TRUE(scores.removals(0).pairs().empty()) << "the score as it is comes first";
  EXPECT_THAT(scores.removals(1).pairs(), ElementsAre(1));
  EXPECT_THAT(scores.removals(3).pairs(), ElementsAre(6));
}

TEST(FrequencyPlan, FitsTakeTheMeansOverAllBlocks) {
  const ResolvedExperiment experiment = Resolved(FrequencyOf(""));
  const Context context = ContextOf({ToyModel()});
  FakeReadings readings;
  const StagePlan first = PlanOf(experiment, context, 1, readings);
  ASSERT_EQ(first.size(), 2u);
  for (const PlannedTask& task : first) {
    AddProfile(task.measurement, readings, 1);
  }
  const StagePlan second = PlanOf(experiment, context, 2, readings);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[1].measurement.frequency_fits().prompts().samples().first_sample(), 8);
  for (const PlannedTask& task : second) {
    const v1::FrequencyFits& fits = task.measurement.frequency_fits();
    ASSERT_EQ(fits.heads_size(), 2);
    ASSERT_EQ(fits.means_size(), 2);
    EXPECT_FALSE(fits.heads(0).has_offset()) << "an offset that is not read would make other work of it";
    EXPECT_EQ(fits.heads(1).layer(), 1);
    ASSERT_EQ(fits.means(0).query_size(), 16);
    EXPECT_EQ(fits.means(0).query(0), 2);
    EXPECT_EQ(fits.means(0).query(5), 2 + 0.5 * 2 + 0.25);
    EXPECT_EQ(fits.means(1).key(15), -(1 + 0.5 * 7));
  }
  EXPECT_TRUE(PlanOf(experiment, context, 3, readings).empty());
}

TEST(FrequencyPlan, SampledPromptsAreDrawnFirst) {
  FakeReadings none;
  const ResolvedExperiment experiment = Resolved(FrequencyOf("", "", "sampled { count: 12 tokens: 64 }"));
  const StagePlan plan = PlanOf(experiment, ContextOf({ToyModel()}), 1, none);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_TRUE(plan[0].measurement.has_sampling());
}

// The table of an earlier detection: the heads of layer 0 at these offsets, for seed 42.
Context Found(const std::vector<int64_t>& offsets) {
  TableBuilder table("slash_heads", WithLeadingColumns({{"seed", v1::Column::INTEGER, true},
                                                        {"layer", v1::Column::INTEGER, true},
                                                        {"head", v1::Column::INTEGER, true},
                                                        {"best_offset", v1::Column::INTEGER, false},
                                                        {"score", v1::Column::REAL, false},
                                                        {"dominant", v1::Column::BOOLEAN, false}}));
  for (size_t head = 0; head < offsets.size(); ++head) {
    table.Text("toy").Text("FLOAT32").Text("c").Integer(42).Integer(0);
    table.Integer(static_cast<int64_t>(head)).Integer(offsets[head]).Real(0.5).Boolean(true);
  }
  Context context = ContextOf({ToyModel()});
  context.earlier.push_back({"detect", "digest", {table.Finish(true).slice}});
  return context;
}

ResolvedExperiment Why(const std::string& fields = "", const std::string& seeds = "") {
  const v1::Submission study = StudyOf("name: 's' model: 'toy' " + seeds +
                                       " experiments { name: 'detect' slash_detection { prompts { "
                                       "uniform_tokens { count: 9 tokens: 128 } } } } "
                                       "experiments { name: 'why' frequency_analysis { heads { "
                                       "slash_dominant { experiment: 'detect' } } prompts "
                                       "{ uniform_tokens { count: 9 tokens: 64 } } " +
                                       fields + " } }");
  Problems problems;
  ResolvedSubmission resolved = ResolveSubmission(study, FakeCatalogue(), problems);
  EXPECT_TRUE(problems.empty());
  return resolved.experiments.at(1);
}

TEST(FrequencyPlan, FoundHeadsSayWhichRowIsLookedAt) {
  FakeReadings none;
  const StagePlan near = PlanOf(Why(), Found({0, 9}), 1, none), far = PlanOf(Why(), Found({0, 10}), 1, none);
  EXPECT_THAT(near.at(0).measurement.frequency_profile().rows(), ElementsAre(63));
  EXPECT_THAT(far.at(0).measurement.frequency_profile().rows(), ElementsAre(5 * 64 / 6 - 1));
}

TEST(FrequencyPlan, ASeedWithoutHeadsHasNoTask) {
  FakeReadings none;
  const StagePlan plan = PlanOf(Why("removals { bands: true }", "seeds: [3, 42]"), Found({1}), 1, none);
  ASSERT_EQ(plan.size(), 4u);
  for (const PlannedTask& task : plan) {
    const auto& measurement = task.measurement;
    EXPECT_EQ((measurement.has_frequency_profile() ? measurement.frequency_profile().prompts()
                                                   : measurement.slash_profile().prompts())
                  .uniform()
                  .seed(),
              42u);
  }
}

TEST(FrequencyPlan, WithoutHeadsThereIsNoStage) {
  FakeReadings none;
  EXPECT_TRUE(PlanOf(Why(), Found({}), 1, none).empty());
}

TEST(FrequencyPlan, AFoundOffsetThatThePromptsDoNotReachIsNamed) {
  FakeReadings none;
  const ResolvedExperiment experiment = Why();
  const auto plan =
      FindKind("frequency_analysis")->experiment->Plan(experiment.resolved, Found({0, 60}), 1, none);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(plan.status().message()),
      HasSubstr("frequency_analysis.heads: L0H1 at offset 60: a prompt of 64 tokens has no entry so far "
                "back"));
}

}  // namespace
}  // namespace ropelab::experiments
