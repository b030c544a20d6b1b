// Sums of one pair's products against loops in double.
#include "worker/engine/frequency_products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ropelab::engine {
namespace {

// Rows: query low, query high, key low, key high.
PairVectors Of(const at::Tensor& rows) {
  const float* first = rows.data_ptr<float>();
  const int64_t n = rows.size(1);
  return {first, first + n, first + 2 * n, first + 3 * n, n};
}

TEST(FrequencyProducts, EqualTheirDefinitionOverSeveralPartsAndTails) {
  at::manual_seed(5);
  for (const int64_t tokens : {int64_t{1}, int64_t{2}, int64_t{33}, int64_t{1025}, int64_t{2500}}) {
    const at::Tensor rows = at::randn({4, tokens}) + 0.1;
    const PairVectors pair = Of(rows);
    const at::Tensor wide = rows.to(at::kDouble);
    const auto v = wide.accessor<double, 2>();
    const auto product = [&](int64_t i, int64_t j) { return v[0][i] * v[2][j] + v[1][i] * v[3][j]; };
    double sum = 0, magnitudes = 0, at_lag = 0;
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        sum += product(i, j);
        magnitudes += std::abs(product(i, j));
      }
      if (i >= 7 + 4) at_lag += product(i, i - 7);
    }
    EXPECT_NEAR(SumOfProducts(pair), sum, 1e-12 * magnitudes) << tokens;
    EXPECT_NEAR(SumOfMagnitudes(pair), magnitudes, 1e-6 * magnitudes) << tokens;
    EXPECT_NEAR(SumAtLag(pair, 7, 4), at_lag, 1e-12 * magnitudes) << tokens;
    std::vector<double> row(tokens);
    ProductsOfRow(pair, tokens - 1, row.data());
    for (int64_t j = 0; j < tokens; ++j) EXPECT_NEAR(row[j], product(tokens - 1, j), 1e-14);
  }
}

// Queries 1 and -2 along the lower dimension, keys 3 and 5: products 3; -6, -10.
TEST(FrequencyProducts, OfTwoTokensAreThoseOfTheHand) {
  const at::Tensor rows = at::tensor({1.0f, -2.0f, 0.0f, 0.0f, 3.0f, 5.0f, 8.0f, 8.0f}).view({4, 2});
  const PairVectors pair = Of(rows);
  EXPECT_EQ(SumOfProducts(pair), -13);
  EXPECT_EQ(SumOfMagnitudes(pair), 19);
  EXPECT_EQ(SumAtLag(pair, 0, 0), -7);
  EXPECT_EQ(SumAtLag(pair, 0, 1), -10);
  EXPECT_EQ(SumAtLag(pair, 1, 0), -6);
}

}  // namespace
}  // namespace ropelab::engine
