// Fits of a head's logits by a function of the lag, on logits small enough for a hand.
#include "worker/engine/frequency_fit.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ropelab::engine {
namespace {

// L(0,0) = 3; L(1,0) = 6, L(1,1) = 10: mean 19/3, squared deviations 74/3.
TEST(FrequencyFit, OfTwoTokensIsThatOfTheHand) {
  const at::Tensor query = at::tensor({1.0f, 2.0f, 0.0f, 0.0f}).view({2, 2});
  const at::Tensor key = at::tensor({3.0f, 5.0f, 9.0f, 9.0f}).view({2, 2});
  const FitShares shares = FitHead(query, key, {7, 6});
  EXPECT_TRUE(shares.finite);
  // Errors -4, 0, 3.
  EXPECT_NEAR(shares.r2, 1 - 25.0 / (74.0 / 3), 1e-15);
  // The second row less its mean is -2, 2; f's is -0.5, 0.5; the first row is 0.
  EXPECT_NEAR(shares.r2_centred, 1 - 4.5 / 8, 1e-15);
  // Lag 0 averages 6.5, lag 1 is 6: deviations 1/6 twice and -1/3.
  EXPECT_NEAR(shares.eta2, (1.0 / 6) / (74.0 / 3), 1e-15);
}

TEST(FrequencyFit, OfOneTokenOrOfEqualLogitsIsUndefined) {
  for (const int64_t tokens : {int64_t{1}, int64_t{300}}) {
    const at::Tensor query = at::full({4, tokens}, 0.3f), key = at::full({4, tokens}, 7.1f);
    const FitShares shares = FitHead(query, key, std::vector<double>(tokens, 2.0));
    EXPECT_TRUE(shares.finite);
    EXPECT_TRUE(std::isnan(shares.r2)) << tokens << ": " << shares.r2;
    EXPECT_TRUE(std::isnan(shares.r2_centred)) << tokens << ": " << shares.r2_centred;
    EXPECT_TRUE(std::isnan(shares.eta2)) << tokens << ": " << shares.eta2;
  }
}

// L(i, j) = c_i + j with c_i up to 2 million: within a row it is a line in the lag, whole numbers all.
TEST(FrequencyFit, RowConstantsMuchLargerThanTheRestMoveNothingCentred) {
  constexpr int64_t kTokens = 700;
  const at::Tensor query = at::ones({2, kTokens}), key = at::ones({2, kTokens});
  std::vector<double> line(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) {
    query[0][i] = static_cast<float>((i * 7919) % 2000 * 1000);
    key[1][i] = static_cast<float>(i);
    line[i] = 40 - static_cast<double>(i);
  }
  const FitShares shares = FitHead(query, key, line);
  EXPECT_NEAR(shares.r2_centred, 1.0, 1e-14);
  EXPECT_LT(shares.r2, 0.01);
  for (double& value : line) value *= 0.5;  // half of every deviation is left
  EXPECT_NEAR(FitHead(query, key, line).r2_centred, 0.75, 1e-14);
}

TEST(FrequencyFit, SaysThatALogitIsNotFinite) {
  const at::Tensor query = at::ones({2, 90}), key = at::ones({2, 90});
  key[1][80] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(FitHead(query, key, std::vector<double>(90, 0.0)).finite);
}

// Several blocks a strip and a last one that is not full, against the definitions in double.
TEST(FrequencyFit, OfManyBlocksEqualsTheDefinition) {
  constexpr int64_t kTokens = 1337;
  at::manual_seed(3);
  const at::Tensor query = at::randn({6, kTokens}) + 0.7, key = at::randn({6, kTokens}) + 0.5;
  std::vector<double> explained(kTokens);
  for (int64_t x = 0; x < kTokens; ++x) explained[x] = 2 + std::cos(0.01 * static_cast<double>(x));
  const at::Tensor logits = at::mm(query.to(at::kDouble).t(), key.to(at::kDouble));
  const auto l = logits.accessor<double, 2>();
  const double count = kTokens * (kTokens + 1) / 2.0;
  double mean = 0, sst = 0, sse = 0, sst_rows = 0, sse_rows = 0, between = 0;
  std::vector<double> lags(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      mean += l[i][j] / count;
      lags[i - j] += l[i][j] / static_cast<double>(kTokens - (i - j));
    }
  }
  for (int64_t i = 0; i < kTokens; ++i) {
    double row = 0, row_explained = 0;
    for (int64_t j = 0; j <= i; ++j) {
      row += l[i][j] / static_cast<double>(i + 1);
      row_explained += explained[i - j] / static_cast<double>(i + 1);
    }
    for (int64_t j = 0; j <= i; ++j) {
      const double centred = l[i][j] - row, rest = centred - (explained[i - j] - row_explained);
      sst += (l[i][j] - mean) * (l[i][j] - mean);
      sse += (l[i][j] - explained[i - j]) * (l[i][j] - explained[i - j]);
      sst_rows += centred * centred;
      sse_rows += rest * rest;
      between += (lags[i - j] - mean) * (lags[i - j] - mean);
    }
  }
  const FitShares shares = FitHead(query, key, explained);
  EXPECT_NEAR(shares.r2, 1 - sse / sst, 1e-7);
  EXPECT_NEAR(shares.r2_centred, 1 - sse_rows / sst_rows, 1e-7);
  EXPECT_NEAR(shares.eta2, between / sst, 1e-7);
}

TEST(FrequencyFit, CosinesFollowAmplitudePhaseAndFactor) {
  // Pair 1: query at 90 degrees with length 2, key at 0 with 3; pair 2: both at 180 degrees, lengths 1 and 4.
  const std::vector<double> query = {0, 2, -1, 0}, key = {3, 0, -4, 0}, theta = {0.5, 0.25};
  const std::vector<double> sums = LagCosines(query, key, theta, 1.5, 3);
  ASSERT_EQ(sums.size(), 3u);
  for (int x = 0; x < 3; ++x) {
    EXPECT_NEAR(sums[x], 2.25 * (-6 * std::sin(0.5 * x) + 4 * std::cos(0.25 * x)), 1e-14) << x;
  }
}

}  // namespace
}  // namespace ropelab::engine
