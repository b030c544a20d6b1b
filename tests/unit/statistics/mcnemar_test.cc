#include "server/statistics/mcnemar.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ropelab::statistics {
namespace {

// All discordant pairs on one side: 2 * 2^-n, as the retrieval paper's comparisons round it.
TEST(McNemar, GivesThePublishedValuesOfOneSidedPairs) {
  const struct {
    int64_t pairs;
    double p;
  } published[] = {{23, 2.4e-7},  {25, 6.0e-8}, {144, 9.0e-44}, {117, 1.2e-35},
                   {39, 3.6e-12}, {28, 7.5e-9}, {18, 7.6e-6}};
  for (const auto& [pairs, p] : published) {
    EXPECT_NEAR(McNemarExact(0, pairs) / p, 1, 0.03) << pairs;  // two digits were printed
    EXPECT_NEAR(McNemarExact(pairs, 0) / std::ldexp(2.0, -static_cast<int>(pairs)), 1, 1e-12) << pairs;
  }
}

TEST(McNemar, NoDiscordantPairIsNoEvidence) {
  EXPECT_DOUBLE_EQ(McNemarExact(0, 0), 1);
  EXPECT_DOUBLE_EQ(McNemarExact(4, 4), 1);
}

TEST(McNemar, IsTheTwoSidedBinomialTest) {
  // 2 * (1 + 10 + 45) / 1024
  EXPECT_NEAR(McNemarExact(2, 8), 112.0 / 1024, 1e-15);
  EXPECT_DOUBLE_EQ(McNemarExact(8, 2), McNemarExact(2, 8));
}

}  // namespace
}  // namespace ropelab::statistics
