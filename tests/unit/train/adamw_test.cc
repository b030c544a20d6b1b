// Against PyTorch 1.13's torch.optim.AdamW and torch.nn.utils.clip_grad_norm_ (max_norm 1), run once in
// Python.
#include "worker/train/adamw.h"

#include <gtest/gtest.h>

namespace ropelab::train {
namespace {

TEST(AdamWTest, TakesTheStepsOfPyTorch) {
  AdamWRule rule;
  rule.weight_decay = 0.1;
  at::Tensor matrix = at::tensor({0.5f, -1.0f, 2.0f, 0.25f}).view({2, 2}).requires_grad_();
  at::Tensor norm = at::tensor({1.0f, -0.5f}).requires_grad_();
  AdamW optimizer(rule, {matrix, norm});
  const double norms[] = {3.7762415409088135, 5.478138446807861, 7.500667095184326};
  for (int64_t step = 0; step < 3; ++step) {
    matrix.mutable_grad() =
        at::tensor({1.0f, -2.0f, 0.5f, 0.0f}).view({2, 2}) * static_cast<double>(step + 1);
    norm.mutable_grad() = at::tensor({3.0f, 0.1f}) * (step % 2 == 0 ? 1.0 : -1.0);
    EXPECT_NEAR(optimizer.Step(step, 0.01), norms[step], 1e-5);
    EXPECT_FALSE(matrix.grad().defined());
  }
  const at::Tensor expected =
      at::tensor({0.46867644786834717f, -0.9671779870986938f, 1.9641811847686768f, 0.24925076961517334f})
          .view({2, 2});
  EXPECT_LT((matrix.detach() - expected).abs().max().item<double>(), 1e-6) << matrix;
  EXPECT_LT(
      (norm.detach() - at::tensor({0.9852961301803589f, -0.5147038102149963f})).abs().max().item<double>(),
      1e-6)
      << norm;
}

TEST(AdamWTest, WarmsUpAndFallsAlongACosine) {
  AdamWRule rule;
  rule.rate = 0.002;
  rule.warmup = 100;
  rule.last_share = 0.05;
  EXPECT_NEAR(LearningRate(rule, 0, 1000), 0.002 / 100, 1e-9);
  // Half way: cos is 0, so (1 + 0.05) / 2 of the rate is left.
  EXPECT_NEAR(LearningRate(rule, 500, 1000), 0.002 * 0.525, 1e-12);
  EXPECT_NEAR(LearningRate(rule, 1000, 1000), 0.002 * 0.05, 1e-12);
}

}  // namespace
}  // namespace ropelab::train
