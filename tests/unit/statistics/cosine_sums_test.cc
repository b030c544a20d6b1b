// Against numpy, and against sums that are known in closed form.
#include <gtest/gtest.h>

#include <cmath>

#include "server/statistics/cosine_sums.h"

namespace ropelab::statistics {
namespace {

TEST(CosineSums, AreNumpysAtEveryLag) {
  const std::vector<double> sums = CosineSums({1.0, 0.3, 0.02}, 40);
  ASSERT_EQ(sums.size(), 41u);
  EXPECT_EQ(sums[0], 3.0);
  EXPECT_NEAR(sums[1], 2.495438801660324, 1e-14);
  EXPECT_NEAR(sums[7], 1.2392721459560843, 1e-14);
  EXPECT_NEAR(sums[40], 0.8736226064273959, 1e-14);
  const PulseFit fit = FitPulse(sums);
  EXPECT_NEAR(fit.c2, 0.9515422953833417, 1e-14);
  EXPECT_NEAR(fit.epsilon, 1.8005397432189976, 1e-14);
  EXPECT_NEAR(fit.c1, 2.0484577046166583, 1e-14);
}

// Dirichlet's kernel: m frequencies 2 pi s / (2m + 1) add up to -1/2 at every lag that 2m + 1 does not
// divide.
TEST(CosineSums, OfThePulseFrequenciesAreAPulse) {
  const int m = 20;
  std::vector<double> theta;
  for (int s = m; s >= 1; --s) {
    theta.push_back(2 * std::acos(-1.0) * s / (2 * m + 1));
  }
  const PulseFit fit = FitPulse(CosineSums(theta, 2 * m));
  EXPECT_NEAR(fit.c1, m + 0.5, 1e-12);
  EXPECT_NEAR(fit.c2, -0.5, 1e-12);
  EXPECT_NEAR(fit.epsilon, 0, 1e-12);
}

TEST(CosineSums, OfNoFrequencyAreZero) {
  EXPECT_EQ(CosineSums({}, 2), std::vector<double>(3, 0.0));
}

TEST(CosineSums, AFrequencyThatStandsStillIsNoPulse) {
  const PulseFit fit = FitPulse(CosineSums({0.0}, 5));
  EXPECT_EQ(fit.c1, 0);
  EXPECT_EQ(fit.epsilon, 0);
}

}  // namespace
}  // namespace ropelab::statistics
