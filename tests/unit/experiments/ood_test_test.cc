#include <functional>

#include "fakes.h"
#include "server/experiments/ood_test.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The score of every prompt at a place; `out`: of the other prompts.
using Planted = std::function<double(bool out, int64_t layer, int64_t head, int64_t offset)>;

std::vector<v1::Reading> Measure(const v1::SlashProfile& profile, bool out, const Planted& planted) {
  std::vector<v1::Reading> readings;
  for (int layer = 0; layer < 2; ++layer) {
    v1::SlashBlock& block = *readings.emplace_back().mutable_slash_block();
    block.set_layer(layer);
    block.set_heads(4);
    block.set_first_offset(profile.first_offset());
    block.set_offsets(profile.last_offset() - profile.first_offset() + 1);
    block.set_prompts(profile.prompts().samples().count());
    for (int64_t head = 0; head < 4; ++head) {
      for (int64_t offset = profile.first_offset(); offset <= profile.last_offset(); ++offset) {
        block.add_mean(planted(out, layer, head, offset));
        block.add_m2(0);
      }
    }
  }
  return readings;
}

struct Ran {
  std::vector<StagePlan> stages;
  absl::StatusOr<Results> results;
};

Ran RunAll(const ResolvedExperiment& experiment, const Planted& planted) {
  const Context context = ContextOf({ToyModel()});
  FakeReadings readings;
  Ran ran;
  for (int64_t stage = 1;; ++stage) {
    const StagePlan plan = PlanOf(experiment, context, stage, readings);
    if (plan.empty()) {
      break;
    }
    for (const PlannedTask& task : plan) {
      readings.Add(stage, task.measurement, Measure(task.measurement.slash_profile(), stage > 1, planted));
    }
    ran.stages.push_back(plan);
  }
  ran.results = FindKind("ood_test")->experiment->Reduce(experiment.resolved, context, readings);
  return ran;
}

constexpr char kSpec[] =
    "name: 'x' model: 'toy' ood_test { detection { prompts { uniform_tokens { count: 12 tokens: 64 } } } "
    "out_of_distribution { uniform_tokens { count: 20 tokens: 48 } } }";

// Five dominant heads; out of distribution they keep all, 3/4, half, a tenth and more than all.
double FiveHeads(bool out, int64_t layer, int64_t head, int64_t offset) {
  const double kept[] = {1.0, 0.75, 0.5, 0.1, 1.2};
  const int64_t place = layer * 4 + head;
  if (place >= 5 || offset != place % 3) {
    return 0.001;
  }
  return 0.2 * (out ? kept[place] : 1.0);
}

std::map<std::string, double> StatisticsOf(const Results& results) {
  const Table& table = TableNamed(results, "statistics");
  std::map<std::string, double> values;
  for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
    values[ColumnNamed(table, "name").texts(row)] = ColumnNamed(table, "value").reals(row);
  }
  return values;
}

TEST(OodTest, RatiosAreTakenAtEachHeadsBestOffset) {
  const Ran ran = RunAll(Resolved(kSpec), FiveHeads);
  ASSERT_TRUE(ran.results.ok()) << ran.results.status();
  ASSERT_EQ(ran.stages.size(), 2u);
  const Table& ratios = TableNamed(*ran.results, "ood_ratios");
  ASSERT_EQ(ratios.slice.rows(), 5);
  EXPECT_THAT(ColumnNamed(ratios, "layer").integers(), ElementsAre(0, 0, 0, 0, 1));
  EXPECT_THAT(ColumnNamed(ratios, "head").integers(), ElementsAre(0, 1, 2, 3, 0));
  EXPECT_THAT(ColumnNamed(ratios, "offset").integers(), ElementsAre(0, 1, 2, 0, 1));
  EXPECT_NEAR(ColumnNamed(ratios, "score_id").reals(1), 0.2, 1e-15);
  EXPECT_NEAR(ColumnNamed(ratios, "score_ood").reals(1), 0.15, 1e-15);
  EXPECT_NEAR(ColumnNamed(ratios, "ratio").reals(1), 0.75, 1e-15);
  EXPECT_EQ(TableNamed(*ran.results, "slash_heads").slice.rows(), 8);
}

// Quartiles are numpy's.
TEST(OodTest, StatisticsAreTheBoxAndTheSharesThatPass) {
  const Ran ran = RunAll(Resolved(kSpec), FiveHeads);
  ASSERT_TRUE(ran.results.ok()) << ran.results.status();
  std::map<std::string, double> values = StatisticsOf(*ran.results);
  EXPECT_NEAR(values.at("ood_ratio_minimum"), 0.1, 1e-15);
  EXPECT_NEAR(values.at("ood_ratio_q1"), 0.5, 1e-15);
  EXPECT_NEAR(values.at("ood_ratio_median"), 0.75, 1e-15);
  EXPECT_NEAR(values.at("ood_ratio_q3"), 1.0, 1e-15);
  EXPECT_NEAR(values.at("ood_ratio_maximum"), 1.2, 1e-15);
  EXPECT_EQ(values.at("ood_ratio_outliers"), 0);
  EXPECT_NEAR(values.at("ood_share_at_threshold"), 0.8, 1e-15) << "0.2, 0.15, 0.1 and 0.24 reach 0.1";
  EXPECT_NEAR(values.at("ood_share_at_half_threshold"), 0.8, 1e-15);
  EXPECT_EQ(values.at("dominant_heads"), 5);
}

TEST(OodTest, WithoutADominantHeadNothingIsMeasuredOutOfDistribution) {
  const Ran ran = RunAll(Resolved(kSpec), [](bool, int64_t, int64_t, int64_t) { return 0.01; });
  ASSERT_TRUE(ran.results.ok()) << ran.results.status();
  EXPECT_EQ(ran.stages.size(), 1u);
  EXPECT_EQ(TableNamed(*ran.results, "ood_ratios").slice.rows(), 0);
  const Table& statistics = TableNamed(*ran.results, "statistics");
  int undefined = 0;
  for (int row = 0; row < static_cast<int>(statistics.slice.rows()); ++row) {
    if (ColumnNamed(statistics, "name").texts(row).starts_with("ood_")) {
      EXPECT_TRUE(NullAt(ColumnNamed(statistics, "value"), row));
      EXPECT_THAT(ColumnNamed(statistics, "undefined_because").texts(row), HasSubstr("no head"));
      ++undefined;
    }
  }
  EXPECT_EQ(undefined, 8);
}

TEST(OodTest, ItsTasksAreThoseOfSlashDetections) {
  const Ran ran = RunAll(Resolved(kSpec), FiveHeads);
  ASSERT_EQ(ran.stages.size(), 2u);
  FakeReadings none;
  int64_t stage = 0;
  for (const char* prompts : {"count: 12 tokens: 64", "count: 20 tokens: 48"}) {
    const ResolvedExperiment detection =
        Resolved(std::string("name: 'y' model: 'toy' slash_detection { prompts { uniform_tokens { ") +
                 prompts + " } } }");
    const StagePlan plan = PlanOf(detection, ContextOf({ToyModel()}), 1, none);
    const StagePlan& ours = ran.stages[static_cast<size_t>(stage++)];
    ASSERT_EQ(ours.size(), plan.size());
    for (size_t i = 0; i < plan.size(); ++i) {
      EXPECT_EQ(ours[i].measurement.SerializeAsString(), plan[i].measurement.SerializeAsString());
    }
  }
}

TEST(OodTest, TheControlsOffsetsAreMeasuredInDistributionAlone) {
  const Ran ran =
      RunAll(Resolved("name: 'x' model: 'toy' ood_test { detection { prompts { uniform_tokens { count: 8 "
                      "tokens: 120 } } regime: LARGE rows: COMMON } }"),
             [](bool, int64_t, int64_t, int64_t offset) { return offset == 50 ? 0.5 : 0.001; });
  ASSERT_TRUE(ran.results.ok()) << ran.results.status();
  ASSERT_EQ(ran.stages.size(), 2u);
  EXPECT_EQ(ran.stages[0].size(), 2u);
  ASSERT_EQ(ran.stages[1].size(), 63u) << "500 prompts in blocks of 8";
  EXPECT_EQ(ran.stages[1][0].measurement.slash_profile().first_offset(), 10);
  EXPECT_NEAR(StatisticsOf(*ran.results).at("ood_ratio_median"), 1, 1e-15);
}

TEST(OodTest, RandomTokensAreAsManyAsTheDetectionsUnlessSaid) {
  const ResolvedExperiment experiment = Resolved(
      "name: 'x' model: 'toy' ood_test { detection { prompts { sampled { count: 8 tokens: 64 } } } }");
  const v1::UniformTokens& other = experiment.resolved.ood_test().out_of_distribution().uniform_tokens();
  EXPECT_EQ(other.count(), 500);
  EXPECT_EQ(other.tokens(), 64);
  EXPECT_EQ(experiment.resolved.ood_test().detection().threshold(), 0.1);
  EXPECT_GT(experiment.estimate.tasks(), 63);
}

TEST(OodTest, ProblemsNameTheFieldThatTheyStandIn) {
  const auto problems = [](const std::string& fields) {
    return ProblemsOf("name: 'x' model: 'toy' ood_test { " + fields + " }");
  };
  const std::string good = "detection { prompts { uniform_tokens { count: 8 tokens: 64 } } } ";
  EXPECT_THAT(problems("detection { prompts { uniform_tokens { count: 8 tokens: 64 } } threshold: 2 }"),
              ElementsAre(HasSubstr("ood_test.detection.threshold: a mean attention")));
  EXPECT_THAT(problems("detection { prompts { uniform_tokens { count: 8 tokens: 2000 } } }"),
              ElementsAre(HasSubstr("ood_test.detection.prompts.uniform_tokens.tokens: model toy takes")));
  EXPECT_THAT(problems(good + "out_of_distribution { uniform_tokens { count: 0 } }"),
              ElementsAre(HasSubstr("ood_test.out_of_distribution.uniform_tokens.count: ")));
  EXPECT_THAT(problems(good + "out_of_distribution { uniform_tokens { tokens: 8 } }"),
              ElementsAre(HasSubstr("ood_test.out_of_distribution: at most 3: a prompt of 8 tokens")));
  EXPECT_THAT(
      problems("detection { prompts { token_ids { prompts { ids: [1,2,3,4,5,6,7,8,9,10] } prompts { ids: "
               "[1,2,3,4,5,6,7,8,9] } } } }"),
      ElementsAre(HasSubstr("ood_test.out_of_distribution.uniform_tokens.tokens: the detection's "
                            "prompts have 9 to 10 tokens")));
}

}  // namespace
}  // namespace ropelab::experiments
