#include "common/nearest_name.h"

#include <gtest/gtest.h>

namespace ropelab {
namespace {

TEST(NearestName, IsAtMostTwoLettersAway) {
  EXPECT_EQ(NearestName("sumbit", {"list", "submit"}), "submit");  // two exchanged
  EXPECT_EQ(NearestName("resuls", {"results"}), "results");        // one dropped
  EXPECT_EQ(NearestName("wattch", {"watch"}), "watch");            // one too many
  EXPECT_EQ(NearestName("status", {"list", "submit"}), "");
}

TEST(NearestName, IsTheNearestAndOfSeveralTheFirst) {
  EXPECT_EQ(NearestName("heads", {"leads", "heads2", "had"}), "leads");
  EXPECT_EQ(NearestName("needle-tin", {"needle-big", "needle-tiny"}), "needle-tiny");
}

TEST(NearestName, SharesALetterWithAShortName) {
  EXPECT_EQ(NearestName("x", {"y", "ab"}), "");
  EXPECT_EQ(NearestName("up", {"xy"}), "");
  EXPECT_EQ(NearestName("", {"a"}), "");
}

}  // namespace
}  // namespace ropelab
