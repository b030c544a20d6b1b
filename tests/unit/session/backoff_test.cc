#include "worker/session/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace ropelab::session {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesFromATenthOfASecondToTwoSecondsWithinHalfOfEach) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Backoff backoff(seed);
    for (const int ceiling : {100, 200, 400, 800, 1600, 2000, 2000, 2000}) {
      const milliseconds wait = backoff.Next();
      EXPECT_GE(wait, milliseconds(ceiling / 2));
      EXPECT_LE(wait, milliseconds(ceiling));
    }
  }
}

TEST(Backoff, StartsAnewAfterAConnectionThatLasted) {
  Backoff backoff(1);
  for (int i = 0; i < 10; ++i) backoff.Next();
  backoff.Reset();
  EXPECT_LE(backoff.Next(), milliseconds(100));
}

TEST(Backoff, SpreadsTheWorkersOfAPool) {
  std::set<int64_t> waits;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Backoff backoff(seed);
    backoff.Lengthen();
    waits.insert(backoff.Next().count());
  }
  EXPECT_GT(waits.size(), 30u);
}

}  // namespace
}  // namespace ropelab::session
