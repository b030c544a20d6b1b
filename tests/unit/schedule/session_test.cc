#include "server/schedule/session.h"

#include "gtest/gtest.h"

namespace ropelab::schedule {
namespace {

using enum SessionState;

TEST(SessionTest, MovesOnlyForward) {
  const SessionState all[] = {kGreeting, kActive, kDraining, kClosed};
  // Rows: from; columns: to. As the header draws it.
  const bool legal[4][4] = {{false, true, false, true},
                            {false, false, true, true},
                            {false, false, false, true},
                            {false, false, false, false}};
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      EXPECT_EQ(IsLegalMove(all[from], all[to]), legal[from][to])
          << NameOf(all[from]) << " to " << NameOf(all[to]);
    }
  }
}

}  // namespace
}  // namespace ropelab::schedule
