#include "worker/train/shallow_training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ropelab::train {
namespace {

constexpr auto kGoOn = [](int64_t, int64_t) { return absl::OkStatus(); };

ShallowTrainingRun PaperRun(int64_t pairs, int64_t offset) {
  ShallowTrainingRun run;
  run.shape = {4, pairs, offset};
  run.frequencies.cone = PulseFrequencies(run.shape.positions());
  run.frequencies.semantic = std::pow(static_cast<double>(run.shape.positions()), -2.0);
  run.first = {1.0, 50};
  run.second = {10.0, 300};
  run.seed = 42;
  return run;
}

ShallowOutcome Train(const ShallowTrainingRun& run) {
  absl::StatusOr<ShallowOutcome> outcome = TrainShallow(run, kGoOn);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.ok() ? *std::move(outcome) : ShallowOutcome();
}

// The first step of stage I at which layer 1 is 1 - N^-1/2 slash-dominant on every row; 0: never.
int64_t StepsToSlash(const ShallowOutcome& outcome, int64_t positions) {
  for (const ShallowStep& step : outcome.steps) {
    if (step.stage == 1 && step.min_slash >= 1 - std::pow(static_cast<double>(positions), -0.5))
      return step.step;
  }
  return 0;
}

TEST(PulseFrequenciesTest, CosinesAddUpToAPulseFarBeyondThePrompt) {
  const std::vector<double> theta = PulseFrequencies(65);  // m = 33: the Dirichlet kernel of 2m + 1 = 67
  ASSERT_EQ(theta.size(), 33u);
  EXPECT_GT(theta.front(), theta.back());
  for (int lag = 0; lag <= 66; ++lag) {
    double sum = 0;
    for (const double frequency : theta) sum += std::cos(frequency * lag);
    EXPECT_NEAR(sum, lag == 0 ? 33.0 : -0.5, 1e-12) << "lag " << lag;
  }
}

TEST(ShallowPromptsTest, LabelsFollowTheirInputsByTheOffset) {
  const ShallowShape shape{4, 6, 3};
  EXPECT_EQ(shape.positions(), 13);
  EXPECT_EQ(shape.InputPosition(4), 7);
  EXPECT_EQ(shape.LabelPosition(4), 10);
  const ShallowBatch batch = DrawPrompts(shape, {}, 7, 1, 0, 64);
  const auto semantic = batch.semantic.accessor<double, 3>();
  for (int64_t pair = 0; pair < 6; ++pair) {
    const int64_t label = shape.LabelPosition(pair);
    EXPECT_EQ(semantic[5][label][4], 1.0);
    EXPECT_EQ(batch.semantic.select(0, 5).select(0, label).narrow(0, 0, 4).abs().sum().item<double>(), 0.0);
    EXPECT_EQ(batch.semantic.select(0, 5).select(0, shape.InputPosition(pair)).sum().item<double>(), 1.0);
  }
  // Tasks lie on the sphere of radius sqrt(d_x): the answers' mean square is 1.
  const ShallowBatch many = DrawPrompts(shape, {}, 7, 1, 0, 20000);
  EXPECT_NEAR(many.answer.square().mean().item<double>(), 1.0, 0.03);
  EXPECT_TRUE(at::equal(many.semantic.narrow(0, 0, 64), batch.semantic));
}

TEST(ShallowTransformerTest, StartsUniformInLayerOne) {
  const ShallowTrainingRun run = PaperRun(32, 1);
  const at::Tensor attention = ShallowTransformer(run.shape, run.frequencies).FirstAttention();
  for (int64_t row : {0, 1, 17, 64}) {
    EXPECT_NEAR(attention[row][0].item<double>(), 1.0 / static_cast<double>(row + 1), 1e-15);
  }
}

// The logit that a hand-rotated query and key give, on one pair.
TEST(ShallowTransformerTest, TurnsQueriesAndKeysAsRotationsDo) {
  const ShallowShape shape{2, 1, 1};
  ShallowTransformer transformer(shape, {{0.7}, 0});
  transformer.first_weight =
      at::tensor(at::ArrayRef<double>({0.3, -1.1, 0.0, 0.0}), at::kDouble).view({2, 2});
  const auto logit = [](int i, int j) {
    const double qi = 0.7 * i, kj = 0.7 * j;
    const double qa = 0.3 * std::cos(qi) + 1.1 * std::sin(qi), qb = 0.3 * std::sin(qi) - 1.1 * std::cos(qi);
    return qa * std::cos(kj) + qb * std::sin(kj);
  };
  const at::Tensor attention = transformer.FirstAttention();
  double sum = 0;
  for (int j = 0; j <= 2; ++j) sum += std::exp(logit(2, j));
  for (int j = 0; j <= 2; ++j)
    EXPECT_NEAR(attention[2][j].item<double>(), std::exp(logit(2, j)) / sum, 1e-14);
}

// The bars of the theorem's experiment at K = 4: the slash paper's section 5 as EXPERIMENTS.md 12 states it.
TEST(ShallowTrainingTest, LearnsTheSlashAndThenTheFeature) {
  for (const auto& [pairs, offset] : {std::pair<int64_t, int64_t>(32, 1), {32, 2}, {33, 3}}) {
    const ShallowTrainingRun run = PaperRun(pairs, offset);
    const ShallowOutcome outcome = Train(run);
    ASSERT_EQ(outcome.steps.size(), 351u);
    EXPECT_NEAR(outcome.steps.front().loss, 0.406, 0.03);
    const int64_t steps = StepsToSlash(outcome, run.shape.positions());
    EXPECT_GE(steps, 10) << "offset " << offset;
    EXPECT_LE(steps, 16) << "offset " << offset;
    EXPECT_LE(outcome.in_distribution.loss, 0.01);
    EXPECT_GE(outcome.feature_share, 0.93);
    const double relative = outcome.in_distribution.loss / outcome.in_distribution.half_square;
    EXPECT_LE(outcome.scaled.loss / outcome.scaled.half_square, 2 * relative);
    EXPECT_LE(outcome.shifted.loss / outcome.shifted.half_square, 2 * relative);
  }
}

TEST(ShallowTrainingTest, OneLargeStepIsEnough) {
  ShallowTrainingRun run = PaperRun(32, 1);
  run.first = {100.0, 2};
  run.second = {10.0, 0};
  EXPECT_LE(StepsToSlash(Train(run), 65), 2);
  EXPECT_GE(StepsToSlash(Train(run), 65), 1);
}

TEST(ShallowTrainingTest, FailsWithoutFrequenciesAndByAliasing) {
  ShallowTrainingRun run = PaperRun(32, 1);
  run.second = {10.0, 0};
  run.frequencies.cone.assign(33, 0.0);
  EXPECT_LT(Train(run).steps.back().min_slash, 0.05);
  run.frequencies.cone.assign(33, std::pow(65.0, -2.0));
  EXPECT_LT(Train(run).steps.back().min_slash, 0.05);
  run.frequencies.cone = PulseFrequencies(32);  // its period 33 is shorter than the prompt
  EXPECT_LE(Train(run).steps.back().min_slash, 0.5);
}

TEST(ShallowTrainingTest, RepeatsItsBits) {
  ShallowTrainingRun run = PaperRun(6, 2);
  run.first.steps = 3;
  run.second.steps = 3;
  const ShallowOutcome one = Train(run), two = Train(run);
  for (size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_EQ(one.steps[i].min_slash, two.steps[i].min_slash);
    EXPECT_EQ(one.steps[i].loss, two.steps[i].loss);
  }
}

TEST(ShallowTrainingTest, RefusesWhatItCannotTrain) {
  ShallowTrainingRun run = PaperRun(32, 3);
  EXPECT_EQ(TrainShallow(run, kGoOn).status().message(),
            "offset is 3; it must divide the number of pairs, 32");
  run = PaperRun(32, 1);
  run.first.learning_rate = std::numeric_limits<double>::infinity();
  EXPECT_EQ(TrainShallow(run, kGoOn).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ropelab::train
