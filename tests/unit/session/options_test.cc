#include "worker/session/options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace ropelab::session {
namespace {

ParsedCommandLine Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ropelab-worker");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return ParseCommandLine(static_cast<int>(argv.size()), argv.data());
}

TEST(OptionsTest, AServerWithoutAPortIsRefused) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Parse({"--server", "localhost"}).exit_code, 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("localhost"), std::string::npos);
  EXPECT_TRUE(Parse({"--server", "localhost:7400"}).run);
}

TEST(OptionsTest, AFileHoldsFlagsAndTheCommandLineWins) {
  const std::string path = testing::TempDir() + "worker_options_test.conf";
  std::ofstream(path) << "server=\"10.0.0.1:7400\"\nthreads=3\n";
  const ParsedCommandLine parsed = Parse({"--config", path, "--threads", "2"});
  ASSERT_TRUE(parsed.run);
  EXPECT_EQ(parsed.options.server.target, "10.0.0.1:7400");
  EXPECT_EQ(parsed.options.threads, 2);
  std::ofstream(path) << "sever=\"10.0.0.1:7400\"\n";
  testing::internal::CaptureStderr();
  EXPECT_EQ(Parse({"--config", path}).exit_code, 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("sever"), std::string::npos);
}

TEST(OptionsTest, SizesHaveUnits) {
  EXPECT_EQ(Parse({"--server", "a:1", "--memory-limit", "500MiB"}).options.memory_limit, int64_t{500} << 20);
  testing::internal::CaptureStderr();
  EXPECT_EQ(Parse({"--server", "a:1", "--memory-limit", "lots"}).exit_code, 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("lots"), std::string::npos);
}

}  // namespace
}  // namespace ropelab::session
