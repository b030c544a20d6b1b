#include "client/child_process.h"

#include <poll.h>

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ropelab::client {
namespace {

std::vector<std::string> AllLines(ChildProcess* child) {
  std::vector<std::string> lines;
  while (!child->output_ended()) {
    pollfd polled{child->output(), POLLIN, 0};
    poll(&polled, 1, 5000);
    for (std::string& line : child->TakeLines()) lines.push_back(std::move(line));
  }
  return lines;
}

std::string HowItEnded(ChildProcess* child) {
  for (int i = 0; i < 500 && !child->Ended().has_value(); ++i) poll(nullptr, 0, 10);
  return child->Ended().value_or("still running");
}

TEST(ChildProcess, PassesOnBothStreamsAndTheLastLineWithoutAnEnd) {
  const auto child =
      ChildProcess::Start("sh", "/bin/sh", {"-c", "echo one; echo two >&2; printf three; exit 4"});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_THAT(AllLines(child->get()), testing::ElementsAre("one", "two", "three"));
  EXPECT_EQ(HowItEnded(child->get()), "exit status 4");
}

TEST(ChildProcess, SaysWhichSignalEndedIt) {
  const auto child = ChildProcess::Start("sleep", "/bin/sleep", {"60"});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_FALSE((*child)->Ended().has_value());
  (*child)->Signal(SIGTERM);
  EXPECT_EQ(HowItEnded(child->get()), "killed by signal 15");
}

TEST(ChildProcess, NamesAProgramThatIsNotThere) {
  const auto child = ChildProcess::Start("x", "/nonexistent/x", {});
  EXPECT_THAT(std::string(child.status().message()), testing::HasSubstr("/nonexistent/x"));
}

}  // namespace
}  // namespace ropelab::client
