#include "common/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropelab {
namespace {

using testing::HasSubstr;

TEST(HostPort, TakesHostsNamesAndBracketedAddresses) {
  for (const char* good : {"127.0.0.1:7400", "localhost:1", "lab.example:65535", "[::1]:7400"}) {
    EXPECT_TRUE(CheckHostPort("--server", good).ok()) << good;
  }
}

TEST(HostPort, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"lab", "names no port: lab:7400"}, {"lab:", "names no port"},   {"", "is empty"},
      {":7400", "names no host"},         {"lab:0", "1 to 65535"},     {"lab:65536", "1 to 65535"},
      {"lab:http", "1 to 65535"},         {"::1:7400", "in brackets"}, {"[::1]", "names no port"},
      {"http://lab:7400", "is a URL"},    {"lab :7400", "white space"}};
  for (const auto& [text, why] : wrong) {
    const absl::Status status = CheckHostPort("--server", text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--server \"")) << text;
  }
}

}  // namespace
}  // namespace ropelab
