#include "server/statistics/spread.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ropelab::statistics {
namespace {

TEST(Spread, IsTheMeanAndTheDeviationOfTheSample) {
  const Spread spread = SpreadOf(std::vector<double>{1, 2, 4, 9});
  EXPECT_DOUBLE_EQ(spread.mean, 4);
  EXPECT_DOUBLE_EQ(*spread.sd, std::sqrt(38.0 / 3));
}

TEST(Spread, OfOneValueHasNoDeviation) {
  const Spread spread = SpreadOf(std::vector<double>{-0.5});
  EXPECT_DOUBLE_EQ(spread.mean, -0.5);
  EXPECT_FALSE(spread.sd.has_value());
}

}  // namespace
}  // namespace ropelab::statistics
