// The vector loops against the same formulas in double.
#include "worker/engine/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ropelab::engine {
namespace {

TEST(SoftmaxRow, IsWithinAFewUlpOfDouble) {
  for (int64_t n : {1, 31, 32, 33, 1024, 1025, 5000}) {
    std::vector<float> row(n);
    for (int64_t i = 0; i < n; ++i) row[i] = static_cast<float>(30 * std::sin(0.37 * i) - 0.001 * i);
    double largest = -1e9, sum = 0;
    for (float x : row) largest = std::max<double>(largest, x);
    std::vector<double> expected;
    for (float x : row) sum += expected.emplace_back(std::exp(0.25 * (x - largest)));
    ASSERT_TRUE(SoftmaxRow(row.data(), n, 0.25f));
    // The product scale * (x - largest) is rounded before the exponential: 15 * 2^-24 at most here.
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(row[i] / (expected[i] / sum), 1, 2e-6) << n << " " << i;
  }
}

TEST(SoftmaxRow, GivesZeroFarBelowTheLargest) {
  std::vector<float> row = {0, -86, -88, -1e30f};
  ASSERT_TRUE(SoftmaxRow(row.data(), 4, 1));
  EXPECT_EQ(row[0], 1.0f);
  EXPECT_NEAR(row[1] / std::exp(-86.0), 1, 1e-5);
  EXPECT_EQ(row[2], 0.0f);
  EXPECT_EQ(row[3], 0.0f);
}

TEST(SoftmaxRow, SaysWhenALogitIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), inf}) {
    for (int64_t at : {0, 3, 40}) {
      std::vector<float> row(41, 1.0f);
      row[at] = bad;
      EXPECT_FALSE(SoftmaxRow(row.data(), 41, 1)) << bad << " at " << at;
    }
  }
  std::vector<float> all(5, -inf);
  EXPECT_FALSE(SoftmaxRow(all.data(), 5, 1));
}

TEST(SoftCapRow, IsWithinAFewUlpOfDouble) {
  for (int64_t n : {1, 31, 32, 33, 3000}) {
    for (float cap : {5.0f, 50.0f}) {
      std::vector<float> row(n), capped;
      // From far below the polynomial's end to where tanh is 1, both signs, and zero.
      for (int64_t i = 0; i < n; ++i)
        row[i] =
            i == 7
                ? 0.0f
                : static_cast<float>((i % 2 == 0 ? 1 : -1) * std::pow(10.0, -6 + 0.003 * (i * 977 % 3000)));
      capped = row;
      ASSERT_TRUE(SoftCapRow(capped.data(), n, 0.25f, cap));
      for (int64_t i = 0; i < n; ++i) {
        const double expected = cap * std::tanh(0.25 * row[i] / cap);
        EXPECT_NEAR(capped[i], expected, 4e-7 * std::abs(expected)) << n << " " << row[i];
      }
    }
  }
}

TEST(SoftCapRow, SaysWhenALogitIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), inf, -inf}) {
    for (int64_t at : {0, 3, 40}) {
      std::vector<float> row(41, 1.0f);
      row[at] = bad;
      EXPECT_FALSE(SoftCapRow(row.data(), 41, 1, 50)) << bad << " at " << at;
    }
  }
  std::vector<float> large = {3e38f, -3e38f};
  EXPECT_TRUE(SoftCapRow(large.data(), 2, 1, 50));
  EXPECT_EQ(large, (std::vector<float>{50, -50}));
}

TEST(DecodeKernels, EqualPlainLoops) {
  const std::vector<float> query = {1, 2}, keys = {1, 2, 3, 99, 10, 20, 30, 99};  // two dimensions, stride 4
  std::vector<float> logits(3), output(2), block(2);
  QueryTimesKeys(query.data(), keys.data(), 2, 4, 3, logits.data());
  EXPECT_EQ(logits, (std::vector<float>{21, 42, 63}));
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  WeightedValues sum(2, block.data(), output.data());
  sum.Add(logits.data(), values.data(), 2, 62);  // up to the end of a block
  sum.Add(logits.data() + 2, values.data() + 4, 1, 64);
  sum.Finish();
  EXPECT_EQ(output, (std::vector<float>{21 + 126 + 315, 42 + 168 + 378}));
}

}  // namespace
}  // namespace ropelab::engine
