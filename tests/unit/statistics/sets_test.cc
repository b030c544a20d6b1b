#include "server/statistics/sets.h"

#include <gtest/gtest.h>

namespace ropelab::statistics {
namespace {

TEST(Sets, CountsEachHeadOnceInAnyOrder) {
  const Overlap overlap = OverlapOf({{2, 1}, {0, 3}, {0, 3}}, {{0, 3}, {1, 0}, {2, 2}});
  EXPECT_EQ(overlap.first, 2);
  EXPECT_EQ(overlap.second, 3);
  EXPECT_EQ(overlap.shared, 1);
  EXPECT_DOUBLE_EQ(*Jaccard(overlap), 0.25);
}

TEST(Sets, TwoEmptySetsHaveNoJaccard) {
  EXPECT_EQ(Jaccard(OverlapOf({}, {})).because(), "both sets are empty");
  EXPECT_DOUBLE_EQ(*Jaccard(OverlapOf({}, {{0, 0}})), 0);
  EXPECT_DOUBLE_EQ(*Jaccard(OverlapOf({{1, 1}}, {{1, 1}})), 1);
}

}  // namespace
}  // namespace ropelab::statistics
