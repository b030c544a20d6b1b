// The two ways of masking and normalizing, one for the CPU and one for any device, against a loop in double.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "worker/engine/attention.h"
#include "worker/engine/causal_softmax.h"
#include "worker/engine/decode_attention.h"
#include "worker/engine/rope.h"

namespace ropelab::engine {
namespace {

class CausalSoftmaxWays
    : public testing::TestWithParam<bool (*)(at::Tensor&, const KeyWindow&, double, double)> {};

TEST_P(CausalSoftmaxWays, ShowEachRowTheKeysItMaySee) {
  for (int64_t window : {0, 1, 3}) {
    const KeyWindow keys{5, window > 0 ? 6 - window : 0, window};
    at::Tensor logits = at::zeros({2, 4, 9 - keys.first_key});
    ASSERT_TRUE(GetParam()(logits, keys, 1.0, 0));
    for (int64_t r = 0; r < 4; ++r) {
      const int64_t row = 5 + r, seen = window > 0 ? window : row + 1;
      for (int64_t c = 0; c < logits.size(2); ++c) {
        const int64_t key = keys.first_key + c;
        const double expected = key <= row && key > row - seen ? 1.0 / static_cast<double>(seen) : 0.0;
        EXPECT_NEAR(logits[1][r][c].item<double>(), expected, 1e-7) << window << " " << r << " " << c;
      }
    }
  }
}

TEST_P(CausalSoftmaxWays, CapScaledLogitsBeforeTheMask) {
  for (int64_t window : {0, 3}) {
    const KeyWindow keys{5, window > 0 ? 6 - window : 0, window};
    at::Tensor logits = at::arange(2 * 4 * (9 - keys.first_key), at::kFloat).view({2, 4, -1});
    logits = (logits * 7).remainder(40) - 20;
    const at::Tensor before = logits.to(at::kDouble);
    ASSERT_TRUE(GetParam()(logits, keys, 0.5, 4.0));
    for (int64_t r = 0; r < 4; ++r) {
      const int64_t first = window > 0 ? r : 0, end = 6 + r - keys.first_key;
      double sum = 0;
      const auto weight = [&](int64_t c) {
        return std::exp(4 * std::tanh(0.5 * before[1][r][c].item<double>() / 4));
      };
      for (int64_t c = first; c < end; ++c) sum += weight(c);
      for (int64_t c = 0; c < logits.size(2); ++c) {
        const double expected = c >= first && c < end ? weight(c) / sum : 0.0;
        EXPECT_NEAR(logits[1][r][c].item<double>(), expected, 1e-6) << window << " " << r << " " << c;
      }
    }
  }
}

TEST_P(CausalSoftmaxWays, SayWhenTheCapHidesAnInfiniteLogit) {
  at::Tensor logits = at::zeros({1, 2, 2});
  logits[0][0][1] = std::numeric_limits<double>::infinity();  // the first row does not see the second key
  EXPECT_TRUE(GetParam()(logits, {0, 0, 0}, 1.0, 30));
  logits = at::zeros({1, 2, 2});
  logits[0][1][0] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(GetParam()(logits, {0, 0, 0}, 1.0, 30));
}

TEST_P(CausalSoftmaxWays, SayWhenALogitThatIsSeenIsNotANumber) {
  at::Tensor logits = at::zeros({1, 2, 2});
  logits[0][0][1] = std::nan("");  // the first row does not see the second key
  EXPECT_TRUE(GetParam()(logits, {0, 0, 0}, 1.0, 0));
  logits = at::zeros({1, 2, 2});
  logits[0][1][0] = std::nan("");
  EXPECT_FALSE(GetParam()(logits, {0, 0, 0}, 1.0, 0));
}

TEST(CausalSoftmax, BothWaysAgree) {
  at::manual_seed(3);
  for (double cap : {0.0, 5.0, 50.0}) {
    for (int64_t window : {0, 20}) {
      const KeyWindow keys{100, window > 0 ? 101 - window : 0, window};
      at::Tensor a = at::randn({3, 64, 164 - keys.first_key}) * 30, b = a.clone();
      ASSERT_TRUE(CausalSoftmax(a, keys, 0.3, cap));
      ASSERT_TRUE(CausalSoftmaxByOperators(b, keys, 0.3, cap));
      EXPECT_LE(Distance(a, b), 1e-6) << cap << " " << window;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CausalSoftmax, CausalSoftmaxWays,
                         testing::Values(CausalSoftmax, CausalSoftmaxByOperators));

TEST(LayerCache, BothWaysOfAttendingAgreeAndTheWindowHides) {
  LayerCache cache(2, 2, 4, 10, at::kCPU);
  at::manual_seed(7);
  for (int64_t position = 0; position < 10; ++position)
    cache.Store(position, at::randn({2, 2, 4}), at::randn({2, 2, 4}));
  const at::Tensor queries = at::randn({2, 6, 4});
  for (int64_t window : {0, 1, 4}) {
    for (double cap : {0.0, 0.7, 30.0}) {
      const AttentionRule rule{window, 0.5, cap};
      EXPECT_LE(Distance(cache.Attend(queries, 9, rule), cache.AttendByOperators(queries, 9, rule)), 1e-6)
          << window << " " << cap;
    }
  }
  EXPECT_GT(Distance(cache.Attend(queries, 9, {0, 0.5, 0}), cache.Attend(queries, 9, {4, 0.5, 0})), 1e-3);
  EXPECT_GT(Distance(cache.Attend(queries, 9, {0, 0.5, 0}), cache.Attend(queries, 9, {0, 0.5, 0.7})), 1e-3);
}

TEST(Rotary, TurnsAPairByPositionTimesFrequency) {
  const RotaryTable table({1.0, 0.5}, 101, at::kCPU);
  const at::Tensor x = at::tensor({1.0f, 0.0f, 0.0f, 2.0f}).view({1, 1, 4});  // pairs (x0, x2) and (x1, x3)
  const at::Tensor turned = table.Rotate(x, 100).flatten();
  const double expected[] = {std::cos(100.0), -2 * std::sin(50.0), std::sin(100.0), 2 * std::cos(50.0)};
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(turned[i].item<double>(), expected[i], 1e-6);
}

TEST(Rotary, MultipliesByTheAttentionFactorBeforeRounding) {
  const RotaryTable table({0.7}, 4, at::kCPU, 1.3);
  const at::Tensor turned = table.Rotate(at::tensor({1.0f, 0.0f}).view({1, 1, 2}), 3).flatten();
  EXPECT_EQ(turned[0].item<float>(), static_cast<float>(1.3 * std::cos(3 * 0.7)));
  EXPECT_EQ(turned[1].item<float>(), static_cast<float>(1.3 * std::sin(3 * 0.7)));
}

// Pairs of a model whose head has D = 4 dimensions turn by theta^0 = 1 and theta^(-1/2). Dynamic scaling:
// theta becomes theta (f n / o - (f - 1))^(D / (D - 2)) for n > o tokens.
TEST(Rotary, FollowsTheLengthOfThePromptAndOfWhatIsDecoded) {
  formats::ModelConfig config = SmallConfig();
  config.head_dim = 4;
  config.rope_theta = 100;
  config.rope_scaling.kind = formats::RopeScalingKind::kDynamic;
  config.rope_scaling.factor = 2;
  config.rope_scaling.original_max_positions = 10;
  const auto slow = [](double tokens) {
    const double stretched = tokens > 10 ? 2 * tokens / 10 - 1 : 1;
    return std::pow(100 * std::pow(stretched, 2), -0.5);
  };
  const at::Tensor x = at::tensor({0.0f, 1.0f, 0.0f, 0.0f}).view({1, 1, 4});
  const RotaryTable prompt = RotaryTable::OfPrompt(config, 40, at::kCPU);
  const RotaryTable decoding = RotaryTable::OfDecoding(config, 40, at::kCPU);
  for (int64_t position : {0, 5, 9, 10, 25, 39}) {
    const double p = static_cast<double>(position);
    EXPECT_NEAR(prompt.RotateAt(x, position)[0][0][3].item<double>(), std::sin(p * slow(40)), 1e-6) << p;
    EXPECT_NEAR(decoding.RotateAt(x, position)[0][0][3].item<double>(), std::sin(p * slow(p + 1)), 1e-6) << p;
  }
}

TEST(Attention, OutputsAreWeightedMeansOfTheGroupsValues) {
  // Queries of zero attend uniformly: the output at row i is the mean of the group's values at 0..i.
  const int64_t n = 20;
  Attention attention({n, 4, 2, 2, 6}, at::kCPU);
  at::Tensor queries = at::zeros({n, 4, 2});
  const at::Tensor keys = at::ones({2, 2, n});
  const at::Tensor positions = at::arange(n, at::kFloat);
  const at::Tensor values =
      at::stack({positions, positions * 10}).unsqueeze(2).expand({2, n, 2}).contiguous();
  ASSERT_TRUE(attention.Run({0, {0, 0.5, 0}, nullptr, true}, queries, keys, values));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t head = 0; head < 4; ++head) {
      EXPECT_NEAR(queries[i][head][1].item<double>(), (head < 2 ? 1 : 10) * static_cast<double>(i) / 2, 1e-4);
    }
  }
}

}  // namespace
}  // namespace ropelab::engine
