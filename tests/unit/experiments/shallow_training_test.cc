#include "server/experiments/shallow_training.h"

#include <cmath>
#include <numbers>

#include "common/service/canonical_hash.h"
#include "fakes.h"
#include "server/experiments/shallow_training_theory.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Shallow(const std::string& fields) {
  return "name: 'x' shallow_training { " + fields + " }";
}

TEST(ShallowTrainingResolve, FillsThePapersDefaults) {
  const v1::ShallowTraining training = Resolved(Shallow("")).resolved.shallow_training();
  EXPECT_EQ(training.features(), 4);
  EXPECT_EQ(training.pairs(), 32);
  EXPECT_EQ(training.offset(), 1);
  EXPECT_TRUE(training.frequencies().has_pulse());
  EXPECT_EQ(training.stage1().learning_rate(), 1);
  EXPECT_EQ(training.stage1().steps(), 50);
  EXPECT_EQ(training.stage2().learning_rate(), 10);
  EXPECT_EQ(training.stage2().steps(), 300);
  EXPECT_TRUE(training.has_counter_experiments());
  EXPECT_FALSE(training.counter_experiments());
  EXPECT_EQ(Resolved(Shallow("offset: 3")).resolved.shallow_training().pairs(), 33);
  EXPECT_EQ(Resolved(Shallow("stage1 { steps: 3 }")).resolved.shallow_training().stage1().learning_rate(), 1);
}

TEST(ShallowTrainingResolve, RefusesWhatCannotBeTrained) {
  const std::string theta = "frequencies { list { theta: ";
  const std::pair<std::string, const char*> refusals[] = {
      {"features: 0", "shallow_training.features: must be 1 to"},
      {"pairs: 0", "shallow_training.pairs: must be 1 to"},
      {"pairs: 9223372036854775807", "shallow_training.pairs: must be 1 to"},
      {"offset: 0", "shallow_training.offset: must be 1 to"},
      {"offset: 9223372036854775807 pairs: 4", "shallow_training.offset: must be 1 to"},
      {"pairs: 32 offset: 3",
       "shallow_training.pairs: must be a multiple of the offset 3, since blocks of 3 x's "
       "stand before their y's; take 30 or 33"},
      {"pairs: 2 offset: 3", "take 3"},
      {"pairs: 1024",
       "a training of 2049 positions, 4 features and 1025 frequencies needs 130 GiB, and at most 2 "
       "are taken; with these, at most "},
      {"pairs: 1 features: 900000", "take fewer features or frequencies"},
      {"frequencies { list {} }", "frequencies.list.theta: lists no frequency"},
      {theta + "[1, 0] } }", "theta[1]: a frequency is a positive number"},
      {theta + "[-1] } }", "theta[0]: a frequency is a positive number"},
      {theta + "[1, 1, 2] } }", "theta[2]: frequencies descend, and the one before it is 1"},
      {theta + "[1, inf] } }", "theta[1]: "},
      {"stage1 { learning_rate: inf }", "stage1.learning_rate: "},
      {"stage1 { learning_rate: 0 }", "stage1.learning_rate: a learning rate is a positive number"},
      {"stage2 { learning_rate: -3 }", "stage2.learning_rate: a learning rate is a positive number"},
      {"stage1 { steps: -1 }", "stage1.steps: must be 0 to 20000"},
      {"stage2 { steps: 20001 }", "stage2.steps: must be 0 to 20000"},
      {"stage1 { steps: 5000 } stage2 { steps: 15001 }",
       "makes 20001 steps with stage1's 5000; at most 20000"},
      {"stage1 { steps: 0 } counter_experiments: true", "so stage1.steps must be at least 1"},
      {"pairs: 2 counter_experiments: true", "needs at least 3 pairs"},
  };
  for (const auto& [fields, problem] : refusals) {
    EXPECT_THAT(ProblemsOf(Shallow(fields)), ElementsAre(HasSubstr(problem))) << fields;
  }
  EXPECT_THAT(ProblemsOf("seeds: [1, 2, 3] " + Shallow("stage1 { steps: 20000 } stage2 { steps: 0 } "
                                                       "counter_experiments: true")),
              ElementsAre(HasSubstr("seeds: make 480000 training steps with the 160000 of each seed")));
  std::string many = "theta: 1";
  for (int i = 0; i < 4096; ++i) many += " theta: 1";
  EXPECT_THAT(ProblemsOf(Shallow("pairs: 1 frequencies { list { " + many + " } }")),
              ElementsAre(HasSubstr("frequencies.list.theta: are too many; at most 4096")));
  EXPECT_THAT(ProblemsOf("model: 'toy' " + Shallow("")), ElementsAre(HasSubstr("runs without a model")));
}

TEST(ShallowTrainingResolve, ThePairsItSaysWouldFitDoFit) {
  const std::string remedy = ProblemsOf(Shallow("pairs: 1023 offset: 3")).at(0);
  const std::string words = "with these, at most ";
  const int pairs = std::stoi(remedy.substr(remedy.find(words) + words.size()));
  EXPECT_THAT(ProblemsOf(Shallow("pairs: " + std::to_string(pairs) + " offset: 3")), IsEmpty());
  EXPECT_THAT(ProblemsOf(Shallow("pairs: " + std::to_string(pairs + 3) + " offset: 3")),
              ElementsAre(HasSubstr("GiB")));
}

// By hand: a single frequency pi/2 gives 0, -1, 0, 1 at lags 1 to 4.
TEST(ShallowTrainingTheory, MeasuresHowFarCosinesAreFromAPulse) {
  const FrequencyCondition one = ConditionOf({std::numbers::pi / 2}, 5);
  EXPECT_NEAR(one.c2, 0, 1e-15);
  EXPECT_NEAR(one.epsilon, 1, 1e-15);
  EXPECT_NEAR(one.c1, 1, 1e-15);
  EXPECT_NEAR(one.least_l, 5, 1e-14);
  const FrequencyCondition pulse = ConditionOf(PulseOfPairs(33), 65);  // the paper's: m + 1/2 and -1/2
  EXPECT_NEAR(pulse.c1, 33.5, 1e-12);
  EXPECT_NEAR(pulse.c2, -0.5, 1e-12);
  EXPECT_LT(pulse.epsilon, 1e-12);
  const FrequencyCondition none = ConditionOf({0, 0}, 5);
  EXPECT_EQ(none.c1, 0);
  EXPECT_TRUE(std::isnan(none.least_l));
}

// python: from math import *; K, N = 4, 65; e1, e2 = N**-.5, N**-.25
// (K*N*log(N) + K*max(0, log(1/(K*e1)))/e1) / 33.5; (K*K*log(K) + K*max(0, log(K*e2**-.5))/e2) / 10
TEST(ShallowTrainingTheory, BoundsAreTheTheoremsWithoutConstants) {
  EXPECT_NEAR(FirstBound(4, 65, 1, 33.5), 33.07295559933283, 1e-12);
  EXPECT_NEAR(FirstBound(4, 65, 100, 33.5), 33.07295559933283 / 100, 1e-12);
  EXPECT_NEAR(SecondBound(4, 65, 10), 4.385215210327495, 1e-12);
  EXPECT_NEAR(FirstBound(9, 65, 1, 33.5), 72.89601650414768,
              1e-12);  // K above 1/eps1: its logarithm counts as 0
  EXPECT_TRUE(std::isnan(FirstBound(4, 65, 1, 0)));
}

TEST(ShallowTrainingPlan, IsOneTaskPerSeedWithoutCounterExperiments) {
  FakeReadings none;
  const StagePlan plan = PlanOf(Resolved("seeds: [7, 8] " + Shallow("offset: 2")), ContextOf({}), 1, none);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[1].model, "");
  EXPECT_FALSE(plan[1].measurement.has_model());
  const v1::ShallowTrainingRun& run = plan[1].measurement.shallow_training();
  EXPECT_EQ(run.theta_size(), 33);
  EXPECT_NEAR(run.theta(0), 2 * std::numbers::pi * 33 / 67, 1e-15);
  EXPECT_NEAR(run.theta(32), 2 * std::numbers::pi / 67, 1e-15);
  EXPECT_EQ(run.semantic_theta(), 1.0 / 4225);
  EXPECT_EQ(run.seed(), 8u);
  EXPECT_EQ(run.first_steps(), 50);
  EXPECT_EQ(run.second_steps(), 300);
  EXPECT_EQ(run.batch(), 256);
  EXPECT_EQ(run.watched(), 1024);
  EXPECT_EQ(run.judged(), 4096);
}

TEST(ShallowTrainingPlan, CounterExperimentsChangeTheFirstBlocksFrequencies) {
  FakeReadings none;
  const StagePlan plan = PlanOf(Resolved(Shallow("counter_experiments: true")), ContextOf({}), 1, none);
  ASSERT_EQ(plan.size(), 8u);
  const auto theta = [&](size_t task, int pair) {
    return plan[task].measurement.shallow_training().theta(pair - 1);
  };
  EXPECT_EQ(theta(1, 1), 0);
  EXPECT_EQ(theta(2, 1), 1.0 / 4225);
  const v1::ShallowTrainingRun& alias = plan[3].measurement.shallow_training();
  EXPECT_EQ(alias.theta_size(), 16);  // a period of 33, half the prompt
  EXPECT_NEAR(alias.theta(15), 2 * std::numbers::pi / 33, 1e-15);
  for (size_t task : {1, 2, 3}) {
    EXPECT_EQ(plan[task].measurement.shallow_training().first_steps(), 50);
    EXPECT_EQ(plan[task].measurement.shallow_training().second_steps(), 0);
  }
  // n = 33: pairs 1-11, 12-22, 23-33.
  const std::pair<int, int> zeroed[] = {{1, 11}, {12, 22}, {23, 33}, {1, 22}};
  for (size_t i = 0; i < 4; ++i) {
    for (int pair = 1; pair <= 33; ++pair) {
      const bool zero = zeroed[i].first <= pair && pair <= zeroed[i].second;
      EXPECT_EQ(theta(4 + i, pair), zero ? 0 : theta(0, pair)) << i << " " << pair;
    }
    EXPECT_EQ(plan[4 + i].measurement.shallow_training().first_steps(), 400);
  }
}

TEST(ShallowTrainingPlan, ARowSeesItsLagTwiceWhateverTheOffset) {
  for (int pairs = 3; pairs < 40; ++pairs) {
    for (int offset = 1; offset <= pairs; ++offset) {
      if (pairs % offset != 0) continue;
      v1::ShallowTraining training;
      training.set_pairs(pairs);
      training.set_offset(offset);
      training.set_counter_experiments(true);
      const int64_t period = 2 * static_cast<int64_t>(VariantsOf(training)[3].theta.size()) + 1;
      EXPECT_GE(period, 3);
      EXPECT_LE(offset + period, 2 * pairs) << pairs << " " << offset;  // the last row's lags end there
    }
  }
}

TEST(ShallowTrainingPlan, WhatMovesNothingIsNoPartOfATask) {
  FakeReadings none;
  const auto plan = [&](const std::string& fields) {
    return PlanOf(Resolved(Shallow(fields)), ContextOf({}), 1, none);
  };
  const StagePlan with = plan("counter_experiments: true"),
                  other = plan("counter_experiments: true stage2 { steps: 1 }");
  EXPECT_EQ(CanonicalHash(with[0].measurement), CanonicalHash(plan("")[0].measurement));
  EXPECT_NE(CanonicalHash(with[0].measurement), CanonicalHash(other[0].measurement));
  for (size_t task = 1; task < 8; ++task) {
    EXPECT_EQ(CanonicalHash(with[task].measurement), CanonicalHash(other[task].measurement));
  }
}

// The statistics of a reduction by name.
class ShallowTrainingReduce : public testing::Test {
 protected:
  void Run(const std::string& spec, const std::vector<std::string>& trajectories) {
    const ResolvedExperiment experiment = Resolved(spec);
    FakeReadings readings;
    const StagePlan plan = PlanOf(experiment, ContextOf({}), 1, readings);
    for (size_t task = 0; task < plan.size(); ++task) {
      readings.Add(1, plan[task].measurement,
                   {FromText<v1::Reading>("shallow_trajectory { " + trajectories.at(task) + " }")});
    }
    auto results =
        FindKind("shallow_training")->experiment->Reduce(experiment.resolved, ContextOf({}), readings);
    ASSERT_TRUE(results.ok()) << results.status();
    results_ = *std::move(results);
    const Table& statistics = TableNamed(results_, "statistics");
    for (int row = 0; row < statistics.slice.rows(); ++row) {
      rows_[ColumnNamed(statistics, "name").texts(row)] = row;
    }
  }
  double Value(const std::string& name) {
    const Table& statistics = TableNamed(results_, "statistics");
    EXPECT_TRUE(rows_.count(name) > 0) << name;
    EXPECT_FALSE(NullAt(ColumnNamed(statistics, "value"), rows_[name])) << name;
    return ColumnNamed(statistics, "value").reals(rows_[name]);
  }
  std::string Undefined(const std::string& name) {
    const Table& statistics = TableNamed(results_, "statistics");
    EXPECT_TRUE(NullAt(ColumnNamed(statistics, "value"), rows_.at(name))) << name;
    return ColumnNamed(statistics, "undefined_because").texts(rows_.at(name));
  }
  Results results_;
  std::map<std::string, int> rows_;
};

constexpr char kEnd[] =
    " in_distribution { loss: 0.01 half_square: 0.5 } scaled { loss: 0.5 half_square: 12.5 } shifted { loss: "
    "0.03 half_square: 1 } end_feature_share: 0.9";

// N = 9: the levels are 2/3 and, for stage II, 9^-1/4 = 0.577.
TEST_F(ShallowTrainingReduce, CountsStepsToTheTheoremsLevels) {
  Run("seeds: 5 " + Shallow("pairs: 4 stage1 { steps: 2 } stage2 { steps: 1 }"),
      {std::string(
           "stage: [1, 1, 1, 2] step: [0, 1, 2, 1] min_slash: [0.1, 0.6, 0.7, 0.7] mean_slash: [0.2, 0.7, "
           "0.8, 0.8] feature_share: [0.1, 0.2, 0.2, 0.5] loss: [0.5, 0.5, 0.6, 0.58]") +
       kEnd});
  EXPECT_EQ(Value("full.steps_to_slash"), 2);
  EXPECT_EQ(Value("full.stage2_steps_to_feature"), 1);
  EXPECT_THAT(Undefined("full.stage2_steps_to_loss"),
              HasSubstr("not reached within 1 steps; the nearest was 0.58"));
  EXPECT_EQ(Value("full.start_loss"), 0.5);
  EXPECT_EQ(Value("full.stage1_end_mean_slash"), 0.8);
  EXPECT_EQ(Value("full.end_feature_share"), 0.5);
  EXPECT_EQ(Value("full.fresh_feature_share"), 0.9);
  EXPECT_NEAR(Value("full.fresh_loss_relative"), 0.02, 1e-15);
  EXPECT_NEAR(Value("full.scaled_loss_relative_to_fresh"), 2, 1e-14);
  EXPECT_NEAR(Value("full.shifted_loss_relative_to_fresh"), 1.5, 1e-14);
  EXPECT_NEAR(Value("assumption.c1"), 5.5, 1e-14);
  const Table& series = TableNamed(results_, "series");
  EXPECT_EQ(series.slice.rows(), 16);
  EXPECT_EQ(ColumnNamed(series, "name").texts(8), "seed_5.full.mean_slash");
  EXPECT_THAT(ColumnNamed(series, "x").reals().at(11), 3);
  EXPECT_EQ(ColumnNamed(series, "y").reals(11), 0.8);
  const Table& statistics = TableNamed(results_, "statistics");
  for (const int64_t seed : ColumnNamed(statistics, "seed").integers()) EXPECT_EQ(seed, 5);
  EXPECT_NEAR(ColumnNamed(statistics, "threshold").reals(rows_["full.steps_to_slash"]), 2.0 / 3, 1e-15);
}

std::string StageOne(int steps, double at, double slash) {
  std::string text;
  for (int i = 0; i <= steps; ++i) {
    text +=
        " stage: 1 step: " + std::to_string(i) +
        " mean_slash: 0.5 feature_share: 0.1 loss: 0.5 min_slash: " + std::to_string(i < at ? 0.01 : slash);
  }
  return text + kEnd;
}

TEST_F(ShallowTrainingReduce, JudgesCounterExperimentsAndCountsBands) {
  Run(Shallow("counter_experiments: true stage1 { steps: 4 } stage2 { steps: 0 } "
              "frequencies { list { theta: [2, 1] } }"),
      {StageOne(4, 2, 0.9), StageOne(4, 4, 0.04), StageOne(4, 4, 0.06), StageOne(4, 0, 0.5),
       StageOne(32, 6, 0.9), StageOne(32, 33, 0), StageOne(32, 5, 0.9)});
  EXPECT_EQ(Value("full.steps_to_slash"), 2);
  EXPECT_EQ(Value("zero.fails"), 1);
  EXPECT_EQ(Value("zero.highest_min_slash"), 0.04);
  EXPECT_EQ(Value("slow.fails"), 0);
  EXPECT_EQ(Value("alias.fails"), 1);
  // Two frequencies: no high band, the first is medium, the second low.
  EXPECT_EQ(Undefined("no_high.steps_ratio"), "the band is empty: 2 frequencies");
  EXPECT_EQ(Value("no_medium.steps_ratio"), 3);
  EXPECT_THAT(Undefined("no_low.steps_to_slash"),
              HasSubstr("not reached within 32 steps; the nearest was 0.01"));
  EXPECT_EQ(Undefined("no_low.steps_ratio"), "this run did not reach the level");
  EXPECT_EQ(Value("no_high_medium.steps_ratio"), 2.5);
}

TEST_F(ShallowTrainingReduce, RefusesATrajectoryOfAnotherLength) {
  const ResolvedExperiment experiment = Resolved(Shallow(""));
  FakeReadings readings;
  readings.Add(1, PlanOf(experiment, ContextOf({}), 1, readings)[0].measurement,
               {FromText<v1::Reading>("shallow_trajectory { stage: 1 step: 0 }")});
  EXPECT_EQ(FindKind("shallow_training")
                ->experiment->Reduce(experiment.resolved, ContextOf({}), readings)
                .status()
                .code(),
            absl::StatusCode::kInternal);
}

TEST(ShallowTrainingCost, GrowsWithStepsSeedsAndRuns) {
  const v1::Estimate one = Resolved(Shallow("")).estimate;
  EXPECT_EQ(one.tasks(), 1);
  EXPECT_GT(one.device_seconds(), 0.1);
  EXPECT_LT(one.device_seconds(), 30);
  const v1::Estimate two = Resolved("seeds: [1, 2] " + Shallow("")).estimate;
  EXPECT_EQ(two.tasks(), 2);
  EXPECT_NEAR(two.device_seconds(), 2 * one.device_seconds(), 1e-9);
  EXPECT_EQ(Resolved(Shallow("counter_experiments: true")).estimate.tasks(), 8);
  EXPECT_THAT(one.basis(), HasSubstr("350 steps of 256 prompts of 65 positions"));
}

}  // namespace
}  // namespace ropelab::experiments
