#include "client/spec_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ropelab::client {
namespace {

TEST(JsonCheck, RefusesAListWithinAList) {
  const absl::Status status =
      CheckJson("a.json", R"({"retrieval_detection": {"needles": {"context_lengths": [[256], [512]]}}})");
  EXPECT_EQ(
      std::string(status.message()),
      "a.json: retrieval_detection.needles.context_lengths.0: a list is nested in a list; write one list");
  EXPECT_TRUE(CheckJson("a.json", R"({"experiments": [{"seeds": [1, 2]}, {"seeds": []}]})").ok());
}

}  // namespace
}  // namespace ropelab::client
