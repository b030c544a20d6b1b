// The draws are held against numpy in tests/e2e/statistics_test.py.
#include "server/statistics/bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ropelab::statistics {
namespace {

using testing::HasSubstr;

TEST(Bootstrap, TakesNumpysPercentiles) {
  std::vector<double> figures;
  for (int i = 200; i >= 0; --i) {
    figures.push_back(i);
  }
  const Interval interval = PercentileInterval(figures);
  EXPECT_DOUBLE_EQ(interval.low, 5);
  EXPECT_DOUBLE_EQ(interval.high, 195);
  EXPECT_EQ(interval.resamples, 201);
}

TEST(Bootstrap, OfAMeanIsCloseToTheNormalIntervalOfManySamples) {
  // 60 of 100 pairs differ by 1: the mean is 0.6 and its standard error sqrt(0.6 * 0.4 / 100) = 0.049.
  std::vector<double> differences(100, 0.0);
  std::fill(differences.begin(), differences.begin() + 60, 1.0);
  const Defined<Interval> interval = BootstrapMean(differences, kResamples, 42);
  ASSERT_TRUE(interval.has_value());
  EXPECT_NEAR(interval->low, 0.6 - 1.96 * 0.049, 0.0101);  // a mean is a multiple of 0.01
  EXPECT_NEAR(interval->high, 0.6 + 1.96 * 0.049, 0.0101);
}

TEST(Bootstrap, OfEqualDifferencesIsAPoint) {
  const Defined<Interval> interval = BootstrapMean(std::vector<double>(7, -0.25), 100, 1);
  EXPECT_DOUBLE_EQ(interval->low, -0.25);
  EXPECT_DOUBLE_EQ(interval->high, -0.25);
  EXPECT_THAT(BootstrapMean(std::vector<double>(), 100, 1).because(), HasSubstr("no pair"));
}

TEST(Bootstrap, OfSignsIsThatOfTheSameMeansToTheLastBit) {
  const SignBootstrap bootstrap(203, 500, 7);
  for (int pattern = 1; pattern < 9; ++pattern) {
    std::vector<int8_t> signs(203);
    std::vector<double> differences;
    for (int i = 0; i < 203; ++i) {
      signs[static_cast<size_t>(i)] = static_cast<int8_t>(i % (pattern + 1) == 0 ? 1 : i % 5 == 0 ? -1 : 0);
      differences.push_back(signs[static_cast<size_t>(i)]);
    }
    const Interval fast = bootstrap.Of(signs);
    const Defined<Interval> plain = BootstrapMean(differences, 500, 7);
    EXPECT_EQ(fast.low, plain->low) << pattern;
    EXPECT_EQ(fast.high, plain->high) << pattern;
    EXPECT_EQ(fast.resamples, plain->resamples) << pattern;
  }
}

TEST(Bootstrap, DrawsOfLayersWithoutBothLabelsAreLeftOut) {
  // The second layer has no labelled head: of two draws it comes twice a quarter of the time.
  const std::vector<LabelledHead> heads = {{0, 3, true}, {0, 1, false}, {1, 10, false}};
  const Defined<Interval> interval = BootstrapDifferenceOfMeans(heads, 4000, 42);
  ASSERT_TRUE(interval.has_value());
  EXPECT_NEAR(static_cast<double>(interval->resamples) / 4000, 0.75, 0.035);
  EXPECT_DOUBLE_EQ(interval->low, 3 - 5.5);
  EXPECT_DOUBLE_EQ(interval->high, 3 - 1);
  const std::vector<LabelledHead> none = {{0, 1, false}, {1, 2, false}};
  EXPECT_THAT(BootstrapDifferenceOfMeans(none, 10, 1).because(), HasSubstr("no draw of layers"));
}

}  // namespace
}  // namespace ropelab::statistics
