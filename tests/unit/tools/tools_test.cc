#include "worker/tools/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ropelab::tools {
namespace {

struct Outcome {
  int code = 0;
  std::string out, error;
};

Outcome Tool(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ropelab-worker");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = RunTool(static_cast<int>(arguments.size()), argv.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.error = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(Tools, TakesEveryWordButNoFlag) {
  EXPECT_TRUE(IsToolCommand("tokenize"));
  EXPECT_TRUE(IsToolCommand("tokenise"));
  EXPECT_FALSE(IsToolCommand("--server"));
  EXPECT_FALSE(IsToolCommand(""));
}

TEST(Tools, NamesTheCommandsWhereAWordIsNone) {
  const Outcome outcome = Tool({"tokenise"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.error, testing::HasSubstr("there is no command \"tokenise\"; commands: inspect, plant, "
                                                "numerics, tokenize, verify"));
}

TEST(Inspect, WritesLogitsWhereNoTensorIsNamedAndSaysWhere) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "inspect_logits";
  std::filesystem::remove_all(folder);
  const std::string model = folder / "planted", out = folder / "tensors.safetensors";
  const Outcome planted = Tool({"plant", "--out", model, "--context", "64", "--slash", "0:1:1"});
  ASSERT_EQ(planted.code, 0) << planted.error;
  const Outcome outcome = Tool({"inspect", "--model", model, "--token-ids", "1,2", "--out", out});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, testing::EndsWith("wrote " + out + "\n"));
  EXPECT_GT(std::filesystem::file_size(out), 2 * 256 * sizeof(float));  // [T, V]
}

TEST(Inspect, AsksForAPrompt) {
  const Outcome outcome = Tool({"inspect", "--model", "m", "--out", "x"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.error, testing::HasSubstr("give the prompt: --token-ids"));
}

}  // namespace
}  // namespace ropelab::tools
