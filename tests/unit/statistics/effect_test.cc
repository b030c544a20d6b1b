#include "server/statistics/effect.h"

#include <gtest/gtest.h>

#include <vector>

namespace ropelab::statistics {
namespace {

const std::vector<double> kA = {2, 4, 4, 4, 5, 5, 7, 9}, kB = {1, 2, 3, 4};

TEST(Effect, CohensDIsTheDifferenceOverThePooledDeviation) {
  // Means 5 and 2.5, squared deviations 32 and 5: 2.5 / sqrt(37 / 10).
  EXPECT_NEAR(*CohensD(kA, kB), 1.2996881122750907, 1e-14);
  EXPECT_NEAR(*CohensD(kB, kA), -1.2996881122750907, 1e-14);
}

TEST(Effect, WelchEqualsScipy) {
  // scipy.stats.ttest_ind(a, b, equal_var=False), scipy 1.10.1.
  const Defined<WelchTest> test = Welch(kA, kB);
  ASSERT_TRUE(test.has_value());
  EXPECT_NEAR(test->t, 2.515015150017844, 1e-13);
  EXPECT_NEAR(test->degrees, 9.341318525214696, 1e-12);
  EXPECT_NEAR(test->p, 0.032159175845987625, 1e-13);
}

TEST(Effect, SaysWhatIsUndefined) {
  const std::vector<double> none, one = {3}, equal = {0.1, 0.1, 0.1};
  EXPECT_FALSE(CohensD(none, kA).has_value());
  EXPECT_FALSE(CohensD(one, one).has_value());
  EXPECT_EQ(CohensD(equal, equal).because(), "the values do not vary within the groups");
  EXPECT_TRUE(CohensD(one, kA).has_value());
  EXPECT_FALSE(Welch(one, kA).has_value());
  EXPECT_EQ(Welch(equal, equal).because(), "the values do not vary within the groups");
  EXPECT_TRUE(Welch(equal, kA).has_value());
}

}  // namespace
}  // namespace ropelab::statistics
