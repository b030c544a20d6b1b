#include "server/experiments/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace ropelab::experiments {
namespace {

TEST(Safetensors, TensorsStandInTheirOrderBehindAnAlignedHeader) {
  SafetensorsFile file;
  file.Add("b", {1, 2}, std::vector<double>{1, -2.5});
  file.Add("a", {1}, std::vector<double>{3});
  const std::string bytes = file.Bytes();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const std::string header = R"({"b":{"dtype":"F64","shape":[1,2],"data_offsets":[0,16]},)"
                             R"("a":{"dtype":"F64","shape":[1],"data_offsets":[16,24]}})";
  EXPECT_EQ(bytes.substr(8, header.size()), header);
  ASSERT_EQ(bytes.size(), 8 + length + 24);
  double numbers[3];
  std::memcpy(numbers, bytes.data() + 8 + length, 24);
  EXPECT_EQ(numbers[0], 1);
  EXPECT_EQ(numbers[1], -2.5);
  EXPECT_EQ(numbers[2], 3);
}

}  // namespace
}  // namespace ropelab::experiments
