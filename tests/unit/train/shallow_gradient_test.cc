// The gradients that training follows, against central differences of the loss at weights that are no special
// point.
#include <gtest/gtest.h>

#include <cmath>

#include "worker/train/shallow_training.h"

namespace ropelab::train {
namespace {

constexpr double kStep = 1e-5;  // differences are then off by its square, some 1e-10

class ShallowGradientTest : public testing::TestWithParam<int> {
 protected:
  static at::Tensor& WeightOf(ShallowTransformer& transformer, int layer) {
    return layer == 1 ? transformer.first_weight : transformer.second_weight;
  }
};

TEST_P(ShallowGradientTest, IsTheSlopeOfTheLoss) {
  const ShallowShape shape{3, 6, 2};
  ShallowTransformer transformer(shape, {{2.0, 1.1, 0.4}, 0.05});
  for (int layer : {1, 2}) {
    at::Tensor& weight = WeightOf(transformer, layer);
    weight = weight + 0.7 * at::sin(at::arange(weight.numel(), at::kDouble) + layer).view(weight.sizes());
  }
  const ShallowBatch batch = DrawPrompts(shape, {}, 11, 1, 0, 8);
  const at::Tensor gradient = BatchGradient(transformer, GetParam(), batch);
  at::Tensor weight = WeightOf(transformer, GetParam()).clone();
  WeightOf(transformer, GetParam()) = weight;
  EXPECT_GT(gradient.abs().max().item<double>(), 1e-3);
  for (int64_t i = 0; i < weight.size(0); ++i) {
    for (int64_t j = 0; j < weight.size(1); ++j) {
      const double there = weight[i][j].item<double>();
      const auto loss_at = [&](double value) {
        weight[i][j] = value;
        return BatchLoss(transformer, batch).item<double>();
      };
      const double slope = (loss_at(there + kStep) - loss_at(there - kStep)) / (2 * kStep);
      weight[i][j] = there;
      EXPECT_NEAR(gradient[i][j].item<double>(), slope, 1e-8) << "entry " << i << ", " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, ShallowGradientTest, testing::Values(1, 2));

// No prompt moves what layer 1 does not read.
TEST(ShallowGradient, OnlyTheConesAxisMovesInLayerOne) {
  const ShallowShape shape{4, 6, 1};
  const ShallowTransformer transformer(shape, {PulseFrequencies(13), 0.01});
  const at::Tensor gradient = BatchGradient(transformer, 1, DrawPrompts(shape, {}, 3, 1, 0, 8));
  EXPECT_GT(gradient[0].abs().max().item<double>(), 0);
  EXPECT_EQ(gradient.slice(0, 1, gradient.size(0)).abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace ropelab::train
