#include "server/statistics/uniform_attention.h"

#include <gtest/gtest.h>

namespace ropelab::statistics {
namespace {

// The sums are numpy's: (1 / np.minimum(np.arange(7, 64) + 1, w)).sum().
TEST(UniformAttention, SumsTheSharesOfTheRowsFromTheFirstOn) {
  EXPECT_NEAR(UniformAttention(64, 0).SumFrom(7), 2.1510337608486263, 1e-15);
}

TEST(UniformAttention, ARowOfASlidingLayerSharesAmongItsWindowOnly) {
  EXPECT_NEAR(UniformAttention(64, 16).SumFrom(7), 3.7878718503718503, 1e-15);
}

TEST(UniformAttention, TheLastRowAloneSeesEveryKeyEqually) {
  EXPECT_EQ(UniformAttention(12, 0).SumFrom(11), 1.0 / 12);
}

TEST(UniformAttention, NoRowSumsToNothing) {
  EXPECT_EQ(UniformAttention(12, 0).SumFrom(12), 0);
  EXPECT_EQ(UniformAttention(12, 0).SumFrom(500), 0);
}

}  // namespace
}  // namespace ropelab::statistics
