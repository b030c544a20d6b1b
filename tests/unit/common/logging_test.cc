#include "common/logging.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

namespace ropelab {
namespace {

TEST(Logging, TailKeepsTheNewestFiftyLinesOnce) {
  InitializeLogging();
  TakeLogTail();
  for (int i = 0; i < 60; ++i) {
    spdlog::info("line {}", i);
  }
  const std::vector<std::string> tail = TakeLogTail();
  ASSERT_EQ(tail.size(), 50u);
  EXPECT_NE(tail.front().find("info line 10"), std::string::npos) << tail.front();
  EXPECT_NE(tail.back().find("info line 59"), std::string::npos) << tail.back();
  EXPECT_TRUE(TakeLogTail().empty());
}

}  // namespace
}  // namespace ropelab
