#include "server/schedule/fair_share.h"

#include "gtest/gtest.h"

namespace ropelab::schedule {
namespace {

constexpr int64_t kSecondOfUse = 1'000'000'000;

TEST(FairShareTest, HalvesEveryHour) {
  FairShare share;
  share.Charge("ada", 80, 0);
  EXPECT_DOUBLE_EQ(share.Usage("ada", 0), 80);
  EXPECT_DOUBLE_EQ(share.Usage("ada", 3600 * kSecondOfUse), 40);
  EXPECT_DOUBLE_EQ(share.Usage("ada", 3 * 3600 * kSecondOfUse), 10);
}

TEST(FairShareTest, ChargesOnTopOfWhatDecayed) {
  FairShare share;
  share.Charge("ada", 80, 0);
  share.Charge("ada", 5, 2 * 3600 * kSecondOfUse);
  EXPECT_DOUBLE_EQ(share.Usage("ada", 2 * 3600 * kSecondOfUse), 25);
}

TEST(FairShareTest, WeightDividesUsage) {
  FairShare share;
  share.SetWeight("ada", 4);
  share.Charge("ada", 80, 0);
  EXPECT_DOUBLE_EQ(share.Usage("ada", 0), 20);
}

TEST(FairShareTest, UnknownOwnerUsedNothing) {
  EXPECT_EQ(FairShare().Usage("nobody", 5), 0);
}

}  // namespace
}  // namespace ropelab::schedule
