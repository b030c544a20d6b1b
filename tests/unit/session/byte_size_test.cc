#include "worker/session/byte_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropelab::session {
namespace {

TEST(ParseByteSize, ReadsPowersOf1024) {
  EXPECT_EQ(*ParseByteSize("1"), 1);
  EXPECT_EQ(*ParseByteSize("1048576"), 1048576);
  EXPECT_EQ(*ParseByteSize("512b"), 512);
  EXPECT_EQ(*ParseByteSize("10k"), 10240);
  EXPECT_EQ(*ParseByteSize("10MiB"), 10485760);
  EXPECT_EQ(*ParseByteSize("500 MB"), 524288000);
  EXPECT_EQ(*ParseByteSize("6g"), 6442450944);
  EXPECT_EQ(*ParseByteSize("1.5G"), 1610612736);
  EXPECT_EQ(*ParseByteSize("2T"), 2199023255552);
}

TEST(ParseByteSize, RefusesWhatIsNoSizeAndSaysWhatIs) {
  for (const char* text : {"", "g", "0", "-1", "-5g", "1q", "1gi", "1gb/s", "nan", "inf", "1e30", "0.5",
                           "5x5", "9999999t", "0x10"}) {
    const absl::StatusOr<int64_t> bytes = ParseByteSize(text);
    ASSERT_FALSE(bytes.ok()) << text << " is " << *bytes;
    EXPECT_THAT(std::string(bytes.status().message()), testing::HasSubstr("powers of 1024"));
  }
}

}  // namespace
}  // namespace ropelab::session
