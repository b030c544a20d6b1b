// Norms, activations and roundings against numbers worked out by hand or in double.
#include "worker/engine/layer_steps.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "worker/engine/layer_ops.h"

namespace ropelab::engine {
namespace {

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  const at::Tensor x = at::tensor({3.0f, 4.0f, 0.0f, 0.0f}).view({1, 4});  // root of 25 / 4: 2.5
  const at::Tensor weight = at::tensor({1.0f, 2.0f, 5.0f, 5.0f});
  EXPECT_LE(Distance(RmsNorm(x, weight, 0).flatten(), at::tensor({1.2f, 3.2f, 0.0f, 0.0f})), 1e-6);
  EXPECT_LE(Distance(WideRmsNorm(x, weight, 0, 0).flatten(), at::tensor({1.2f, 3.2f, 0.0f, 0.0f})), 1e-6);
  EXPECT_LE(Distance(WideRmsNorm(x, weight, 0, 1).flatten(), at::tensor({2.4f, 4.8f, 0.0f, 0.0f})), 1e-6);
  EXPECT_LE(Distance(RmsNorm(x, weight, 6.25 * 3).flatten(), at::tensor({0.6f, 1.6f, 0.0f, 0.0f})), 1e-6);
}

// bf16 numbers between 1 and 2 are 2^-7 apart. Of 1 and 0.8125 the first is normed to 1.097591: rounded at
// once 1.09375, times 1.5 1.640625; times 1.5 and then rounded 1.6484375.
TEST(RmsNorm, RoundsBeforeTheWeightOrAfterIt) {
  const at::Tensor x = at::tensor({1.0f, 0.8125f}).view({1, 2}).to(at::kBFloat16);
  const at::Tensor weight = at::full({2}, 1.5).to(at::kBFloat16);
  EXPECT_EQ(RmsNorm(x, weight, 0)[0][0].item<double>(), 1.640625);
  EXPECT_EQ(WideRmsNorm(x, weight, 0, 0)[0][0].item<double>(), 1.6484375);
  // 1 + 2^-9 is no bf16 number: rounded to 1 it would leave 1.09375.
  const at::Tensor small = at::full({2}, 0x1p-9).to(at::kBFloat16);
  EXPECT_EQ(WideRmsNorm(x, small, 0, 1)[0][0].item<double>(), 1.1015625);
}

// Gate and up are both x, down is the identity: the result over x is the activation.
TEST(Mlp, HasTheActivationOfTheConfig) {
  const at::Tensor one = at::eye(5);
  model::LayerWeights weights;
  weights.gate = weights.up = weights.down = one;
  const at::Tensor x = at::tensor({-3.0f, -0.5f, 0.25f, 1.0f, 4.0f}).view({1, 5});
  const auto expect = [&](formats::Activation activation, double (*formula)(double)) {
    const at::Tensor y = Mlp(x, weights, activation);
    for (int64_t i = 0; i < 5; ++i) {
      const double v = x[0][i].item<double>();
      EXPECT_NEAR(y[0][i].item<double>(), v * formula(v), 2e-6) << static_cast<int>(activation) << " " << v;
    }
  };
  expect(formats::Activation::kSilu, [](double v) { return v / (1 + std::exp(-v)); });
  expect(formats::Activation::kGelu, [](double v) { return v / 2 * std::erfc(-v / std::sqrt(2.0)); });
  expect(formats::Activation::kGeluTanh,
         [](double v) { return v / 2 * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))); });
}

TEST(Embed, RoundsTheScaleToTheActivationsDtype) {
  formats::ModelConfig config = SmallConfig();
  config.embedding_scale = std::sqrt(2048.0);  // 45.2548: 45.25 in bf16
  const std::vector<int32_t> ids = {3, 0, 89};
  const model::LoadedModel narrow = MadeModel(config, at::kBFloat16);
  const at::Tensor rows = Embed(narrow, ids);
  EXPECT_EQ(rows.scalar_type(), at::kBFloat16);
  const at::Tensor exact = narrow.weights.embedding[3].to(at::kDouble) * 45.25;
  EXPECT_TRUE(at::equal(rows[0], exact.to(at::kBFloat16)));
  const model::LoadedModel wide = MadeModel(config);
  EXPECT_LE(Distance(Embed(wide, ids)[2], wide.weights.embedding[89].to(at::kDouble) * std::sqrt(2048.0)),
            1e-5);
}

TEST(OutputLogits, AreCappedAndRounded) {
  formats::ModelConfig config = SmallConfig();
  config.final_soft_cap = 4;
  const at::Tensor x = at::tensor({8.0f, -2.0f}).view({1, 2});  // its norm: 8 and -2 over sqrt(34)
  const at::Tensor head = at::eye(2) * std::sqrt(34.0f);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor logits = OutputLogits(x.to(type), at::ones({2}).to(type), head.to(type), config);
    EXPECT_EQ(logits.scalar_type(), at::kFloat);
    const double tolerance = type == at::kFloat ? 1e-5 : 2e-2;
    EXPECT_NEAR(logits[0][0].item<double>(), 4 * std::tanh(2.0), tolerance) << type;
    EXPECT_NEAR(logits[0][1].item<double>(), -4 * std::tanh(0.5), tolerance) << type;
    EXPECT_TRUE(at::equal(logits, RoundedTo(type, logits))) << type;
  }
}

}  // namespace
}  // namespace ropelab::engine
