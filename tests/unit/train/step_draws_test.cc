#include "worker/train/step_draws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace ropelab::train {
namespace {

TEST(StepDrawsTest, LengthsStayWithinAQuarterBelowTheStages) {
  const Recipe recipe;  // 64, 128, 256, 512, 1024
  for (int64_t stage = 0; stage < 5; ++stage) {
    int64_t shorter = 0, longest = 0;
    for (int64_t step = 0; step < 2000; ++step) {
      const int64_t length = StepLength(recipe, step, stage);
      // The stage that it is of: lengths double, so three quarters of one lie above the one before.
      const auto& lengths = recipe.curriculum.lengths;
      const auto of = std::lower_bound(lengths.begin(), lengths.begin() + stage, length);
      ASSERT_LE(length, *of) << step;
      ASSERT_GE(length, std::max<int64_t>(64, *of * 3 / 4)) << step;
      shorter += length < *of;
      longest += length == lengths[static_cast<size_t>(stage)];
    }
    EXPECT_GT(longest, 0);
    if (stage == 0) {
      EXPECT_EQ(shorter, 0);  // nothing is shorter than the shortest prompt
    } else {
      EXPECT_GT(shorter, 600) << stage;
      EXPECT_LE(shorter, 1100) << stage;
    }
  }
}

// 8000 steps: a share of 0.3 has a standard error of 0.005.
TEST(StepDrawsTest, ThreeStepsOfTenTakeALengthBefore) {
  const Recipe recipe;
  constexpr int64_t kSteps = 8000;
  for (int64_t stage = 1; stage < 5; ++stage) {
    const int64_t before = recipe.curriculum.lengths[static_cast<size_t>(stage - 1)];
    int64_t earlier = 0;
    std::set<int64_t> seen;
    for (int64_t step = 0; step < kSteps; ++step) {
      const int64_t length = StepLength(recipe, step, stage);
      if (length > before) continue;
      ++earlier;
      seen.insert(length);
    }
    EXPECT_NEAR(static_cast<double>(earlier) / kSteps, 0.3, 0.02) << stage;
    for (int64_t i = 0; i < stage; ++i) {
      EXPECT_TRUE(seen.contains(recipe.curriculum.lengths[static_cast<size_t>(i)])) << stage << " " << i;
    }
  }
}

TEST(StepDrawsTest, PressureGrowsFromItsStartOverItsWarmUp) {
  Recipe recipe;
  recipe.heads.start = 10;
  recipe.heads.warmup = 4;
  const struct {
    int64_t step;
    double pressure;
  } rows[] = {{0, 0}, {9, 0}, {10, 0}, {11, 0.25}, {12, 0.5}, {14, 1}, {15, 1}, {1000, 1}};
  for (const auto& row : rows) EXPECT_EQ(PressureAt(recipe, row.step), row.pressure) << row.step;
}

TEST(StepDrawsTest, NoHeadIsLeftOutWithoutDropoutOrPressure) {
  Recipe recipe;
  recipe.heads.start = 10;
  recipe.heads.warmup = 4;
  EXPECT_FALSE(HeadScale(recipe, 20, 2).defined());
  recipe.heads.dropout = {0.2, 0.2, 0.2, 0.2};
  EXPECT_FALSE(HeadScale(recipe, 10, 2).defined());
  EXPECT_TRUE(HeadScale(recipe, 11, 2).defined());
}

// Of a sample a head is left out with probability 2 d u, u uniform, so with d over samples, and the others
// are raised by 1 / (1 - 2 d u): the mean stays 1. 2000 samples of 8 heads: standard errors below 0.01.
TEST(StepDrawsTest, LeavesHeadsOutByTheirLayersShareAndKeepsTheMean) {
  Recipe recipe;
  recipe.heads.dropout = {0.4, 0, 0.1, 0.2};
  recipe.heads.warmup = 1;
  const at::Tensor scale = HeadScale(recipe, 1, 2000);
  ASSERT_EQ(scale.sizes(), (at::IntArrayRef{2000, 4, 8}));
  ASSERT_EQ(scale.scalar_type(), at::kFloat);
  for (int64_t layer = 0; layer < 4; ++layer) {
    const at::Tensor of_layer = scale.select(1, layer);
    EXPECT_NEAR(of_layer.mean().item<double>(), 1, 0.05) << layer;
    const double share = recipe.heads.dropout[static_cast<size_t>(layer)];
    EXPECT_NEAR(of_layer.eq(0).to(at::kFloat).mean().item<double>(), share, 0.03) << layer;
  }
  EXPECT_TRUE(scale.select(1, 1).eq(1).all().item<bool>());
}

// At half the pressure the share that is left out is half.
TEST(StepDrawsTest, LeavesOutFewerHeadsWhileThePressureGrows) {
  Recipe recipe;
  recipe.heads.dropout = {0.4, 0.4, 0.4, 0.4};
  recipe.heads.warmup = 2;
  EXPECT_NEAR(HeadScale(recipe, 1, 2000).eq(0).to(at::kFloat).mean().item<double>(), 0.2, 0.02);
}

TEST(StepDrawsTest, StepsDrawApart) {
  Recipe recipe;
  recipe.heads.dropout = {0.4, 0.4, 0.4, 0.4};
  recipe.heads.warmup = 1;
  EXPECT_TRUE(at::equal(HeadScale(recipe, 5, 3), HeadScale(recipe, 5, 3)));
  EXPECT_FALSE(at::equal(HeadScale(recipe, 5, 3), HeadScale(recipe, 6, 3)));
}

}  // namespace
}  // namespace ropelab::train
