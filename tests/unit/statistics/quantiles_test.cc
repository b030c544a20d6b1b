// Against numpy.percentile.
#include <gtest/gtest.h>

#include "server/statistics/quantiles.h"

namespace ropelab::statistics {
namespace {

TEST(Quantiles, AreNumpysOfAnUnorderedSample) {
  const FiveNumbers numbers = FiveNumbersOf({0.93, 1.02, 0.4, 0.99, 1.1, 0.97, 0.08});
  EXPECT_DOUBLE_EQ(numbers.minimum, 0.08);
  EXPECT_NEAR(numbers.q1, 0.665, 1e-15);
  EXPECT_NEAR(numbers.median, 0.97, 1e-15);
  EXPECT_NEAR(numbers.q3, 1.005, 1e-15);
  EXPECT_DOUBLE_EQ(numbers.maximum, 1.1);
}

TEST(Quantiles, OfOneValueAreThatValue) {
  const FiveNumbers numbers = FiveNumbersOf({0.5});
  EXPECT_EQ(numbers.q1, 0.5);
  EXPECT_EQ(numbers.q3, 0.5);
  EXPECT_FALSE(numbers.IsOutlier(0.5));
}

// Quartiles 2 and 4: outside [-1, 7].
TEST(Quantiles, OutliersLieFurtherThanOneAndAHalfTimesTheBox) {
  const FiveNumbers numbers = FiveNumbersOf({1, 2, 3, 4, 100});
  EXPECT_FALSE(numbers.IsOutlier(-1));
  EXPECT_FALSE(numbers.IsOutlier(7));
  EXPECT_TRUE(numbers.IsOutlier(-1.01));
  EXPECT_TRUE(numbers.IsOutlier(100));
}

}  // namespace
}  // namespace ropelab::statistics
