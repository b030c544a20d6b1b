// The two ways of masking and normalizing, one for the CPU and one for any device, against a loop in double.
#include <gtest/gtest.h>

#include <cmath>

#include "worker/engine/attention.h"
#include "worker/engine/causal_softmax.h"
#include "worker/engine/decode_attention.h"
#include "worker/engine/rope.h"

namespace ropelab::engine {
namespace {

class CausalSoftmaxWays : public testing::TestWithParam<bool (*)(at::Tensor&, const KeyWindow&, double)> {};

TEST_P(CausalSoftmaxWays, ShowEachRowTheKeysItMaySee) {
  for (int64_t window : {0, 1, 3}) {
    const KeyWindow keys{5, window > 0 ? 6 - window : 0, window};
    at::Tensor logits = at::zeros({2, 4, 9 - keys.first_key});
    ASSERT_TRUE(GetParam()(logits, keys, 1.0));
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

TEST_P(CausalSoftmaxWays, SayWhenALogitThatIsSeenIsNotANumber) {
  at::Tensor logits = at::zeros({1, 2, 2});
  logits[0][0][1] = std::nan("");  // the first row does not see the second key
  EXPECT_TRUE(GetParam()(logits, {0, 0, 0}, 1.0));
  logits = at::zeros({1, 2, 2});
  logits[0][1][0] = std::nan("");
  EXPECT_FALSE(GetParam()(logits, {0, 0, 0}, 1.0));
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
    const at::Tensor a = cache.Attend(queries, 9, window, 0.5),
                     b = cache.AttendByOperators(queries, 9, window, 0.5);
    EXPECT_LE((a - b).abs().max().item<double>(), 1e-6) << window;
  }
  EXPECT_GT((cache.Attend(queries, 9, 0, 0.5) - cache.Attend(queries, 9, 4, 0.5)).abs().max().item<double>(),
            1e-3);
}

TEST(Rotary, TurnsAPairByPositionTimesFrequency) {
  const RotaryTable table({1.0, 0.5}, 101, at::kCPU);
  const at::Tensor x = at::tensor({1.0f, 0.0f, 0.0f, 2.0f}).view({1, 1, 4});  // pairs (x0, x2) and (x1, x3)
  const at::Tensor turned = table.Rotate(x, 100).flatten();
  const double expected[] = {std::cos(100.0), -2 * std::sin(50.0), std::sin(100.0), 2 * std::cos(50.0)};
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(turned[i].item<double>(), expected[i], 1e-6);
}

TEST(Attention, OutputsAreWeightedMeansOfTheGroupsValues) {
  // Queries of zero attend uniformly: the output at row i is the mean of the group's values at 0..i.
  const int64_t n = 20;
  Attention attention({n, 4, 2, 2, 6}, at::kCPU);
  at::Tensor queries = at::zeros({n, 4, 2});
  const at::Tensor keys = at::ones({2, n, 2});
  const at::Tensor positions = at::arange(n, at::kFloat);
  const at::Tensor values =
      at::stack({positions, positions * 10}).unsqueeze(2).expand({2, n, 2}).contiguous();
  ASSERT_TRUE(attention.Run({0, 0, 0.5, nullptr, true}, queries, keys, values));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t head = 0; head < 4; ++head) {
      EXPECT_NEAR(queries[i][head][1].item<double>(), (head < 2 ? 1 : 10) * static_cast<double>(i) / 2, 1e-4);
    }
  }
}

}  // namespace
}  // namespace ropelab::engine
