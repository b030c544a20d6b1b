#include "server/statistics/moments.h"

#include <gtest/gtest.h>

#include <vector>

namespace ropelab::statistics {
namespace {

// One value at a time, by the definition: mean first, then squared deviations.
Moments Of(const std::vector<double>& values) {
  Moments moments;
  moments.n = static_cast<int64_t>(values.size());
  for (const double value : values) {
    moments.mean += value / static_cast<double>(values.size());
  }
  for (const double value : values) {
    moments.m2 += (value - moments.mean) * (value - moments.mean);
  }
  return moments;
}

// Mean, m2 and standard error of the twelve values together are numpy's (mean, std(ddof=1)/sqrt(12)).
TEST(Moments, MergesUnevenBlocksAsIfTheyWereOneSample) {
  Moments total;
  Merge(Of({0.11, 0.07, 0.13, 0.09, 0.2, 0.05, 0.12, 0.08}), total);
  Merge(Of({0.3, 0.02, 0.17, 0.06}), total);
  EXPECT_EQ(total.n, 12);
  EXPECT_NEAR(total.mean, 0.11666666666666668, 1e-16);
  EXPECT_NEAR(total.m2, 0.06486666666666666, 1e-16);
  EXPECT_NEAR(*StandardError(total), 0.022167862806642895, 1e-16);
}

TEST(Moments, EqualValuesHaveNoVarianceAtAll) {
  Moments total;
  for (int block = 0; block < 100; ++block) {
    Merge({8, 0.1, 0}, total);
  }
  EXPECT_EQ(total.mean, 0.1);
  EXPECT_EQ(total.m2, 0);
  EXPECT_EQ(*StandardError(total), 0);
}

TEST(Moments, AnEmptyBlockChangesNothing) {
  Moments total = {3, 0.25, 0.5};
  Merge({}, total);
  EXPECT_EQ(total.n, 3);
  EXPECT_EQ(total.mean, 0.25);
  EXPECT_EQ(total.m2, 0.5);
}

TEST(Moments, OneValueHasNoStandardError) {
  EXPECT_FALSE(StandardError({1, 0.5, 0}).has_value());
  EXPECT_FALSE(StandardError({}).has_value());
}

}  // namespace
}  // namespace ropelab::statistics
