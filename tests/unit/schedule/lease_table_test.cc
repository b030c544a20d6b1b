#include "server/schedule/lease_table.h"

#include "gtest/gtest.h"

namespace ropelab::schedule {
namespace {

constexpr int64_t kLease = 1000;
constexpr int64_t kNoProgress = 5000;

Lease Of(int64_t task, int64_t epoch, bool ahead) {
  Lease lease;
  lease.task = task;
  lease.epoch = epoch;
  lease.attached = true;
  lease.worker = "w";
  lease.ahead = ahead;
  return lease;
}

class LeaseTableTest : public testing::Test {
 protected:
  Lease& Granted(int64_t task, bool ahead, int64_t now) {
    Lease& lease = table_.Insert(Of(task, 7, ahead), now);
    table_.Confirm(lease, 1, now);
    return lease;
  }
  LeaseTable table_{LeaseTimes{kLease, kNoProgress}};
};

TEST_F(LeaseTableTest, ExpiresAtItsDeadlineAndNotBefore) {
  Granted(1, false, 0);
  EXPECT_TRUE(table_.Expire(kLease - 1).empty());
  ASSERT_EQ(table_.Expire(kLease).size(), 1u);
  EXPECT_EQ(table_.Expire(kLease)[0].task, 1);
}

TEST_F(LeaseTableTest, RenewingGivesAFullLeaseTime) {
  Lease& lease = Granted(1, false, 0);
  table_.Renew(lease, 900);
  EXPECT_TRUE(table_.Expire(1899).empty());
  EXPECT_EQ(table_.Expire(1900).size(), 1u);
}

TEST_F(LeaseTableTest, ALeaseFetchedAheadDoesNotAgeBesideARunningOne) {
  Lease& running = Granted(1, false, 0);
  Granted(2, true, 0);
  for (int64_t now = 500; now <= 3000; now += 500) {
    table_.Renew(running, now);
    EXPECT_TRUE(table_.Expire(now).empty()) << now;
  }
  table_.Erase(1);
  EXPECT_TRUE(table_.Expire(3999).empty());
  EXPECT_EQ(table_.Expire(4000).size(), 1u);
}

TEST_F(LeaseTableTest, AliveWithoutProgressExpires) {
  Lease& lease = Granted(1, false, 0);
  table_.ReportProgress(lease, 3, 10, "measuring", 100);
  for (int64_t now = 500; now < 5100; now += 500) {
    table_.Renew(lease, now);
    table_.ReportProgress(lease, 3, 10, "measuring", now);
    EXPECT_TRUE(table_.Expire(now).empty()) << now;
  }
  table_.Renew(lease, 5100);
  const auto expired = table_.Expire(5100);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_NE(expired[0].cause.find("no progress"), std::string::npos);
  EXPECT_NE(expired[0].cause.find("3 of 10"), std::string::npos);
}

TEST_F(LeaseTableTest, ProgressPutsTheProgressDeadlineOff) {
  Lease& lease = Granted(1, false, 0);
  table_.ReportProgress(lease, 3, 10, "measuring", 4000);
  table_.Renew(lease, 8900);
  EXPECT_TRUE(table_.Expire(8999).empty());
  EXPECT_EQ(table_.Expire(9000).size(), 1u);
}

TEST_F(LeaseTableTest, OpeningAndEndingLeasesWaitForTheDiskHoweverLong) {
  table_.Insert(Of(1, 7, false), 0);
  Lease& ending = Granted(2, false, 0);
  ending.phase = LeasePhase::kEnding;
  EXPECT_TRUE(table_.Expire(1'000'000).empty());
}

TEST_F(LeaseTableTest, MatchesOnlyTheOpenAttemptUnderItsEpoch) {
  Granted(1, false, 0);
  EXPECT_NE(table_.Match(1, 1, 7), nullptr);
  EXPECT_EQ(table_.Match(1, 2, 7), nullptr);
  EXPECT_EQ(table_.Match(1, 1, 6), nullptr);
  EXPECT_EQ(table_.Match(2, 1, 7), nullptr);
  table_.Detach(7, 0);
  EXPECT_EQ(table_.Match(1, 1, 7), nullptr);
}

TEST_F(LeaseTableTest, AdoptionMovesTheLeaseToTheNewEpochWithAFullLeaseTime) {
  Lease& lease = Granted(1, false, 0);
  table_.Detach(7, 100);
  table_.Adopt(lease, 9, 1, 800);
  EXPECT_EQ(table_.Match(1, 1, 7), nullptr);
  EXPECT_NE(table_.Match(1, 1, 9), nullptr);
  EXPECT_TRUE(table_.Expire(1799).empty());
  EXPECT_EQ(table_.Expire(1800).size(), 1u);
}

}  // namespace
}  // namespace ropelab::schedule
