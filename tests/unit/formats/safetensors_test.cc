#include "worker/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "worker/formats/safetensors_writer.h"

namespace ropelab::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string LengthPrefix(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(length >> (8 * i) & 0xff));
  return bytes;
}

std::string File(const std::string& header, size_t data_bytes) {
  return LengthPrefix(header.size()) + header + std::string(data_bytes, '\1');
}

void ExpectRefused(const std::string& file, const std::string& because) {
  const auto parsed = ParseSafetensorsHeader(file, "x.safetensors");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(because));
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("x.safetensors"));
}

TEST(SafetensorsHeader, ReadsTensorsInAnyOrderOfData) {
  const auto parsed = ParseSafetensorsHeader(
      File(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[3,11]},)"
           R"("a":{"shape":[3],"data_offsets":[0,3],"dtype":"U8"}}  )",
           11),
      "x");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ((*parsed)[0].name, "b");
  EXPECT_EQ((*parsed)[0].end - (*parsed)[0].begin, 8u);
  EXPECT_EQ((*parsed)[0].begin - (*parsed)[1].begin, 3u);
  EXPECT_THAT((*parsed)[1].shape, ElementsAre(3));
}

TEST(SafetensorsHeader, ReadsScalarsAndEmptyTensors) {
  const auto parsed = ParseSafetensorsHeader(
      File(
          R"({"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},"e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]}})",
          8),
      "x");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE((*parsed)[0].shape.empty());
}

TEST(SafetensorsHeader, RefusesAFileShorterThanItsLengthField) {
  ExpectRefused("abc", "has 3 bytes");
}

TEST(SafetensorsHeader, RefusesAHeaderLongerThanTheFile) {
  ExpectRefused(LengthPrefix(50) + "{}", "only 2 follow");
}

TEST(SafetensorsHeader, RefusesAHeaderOfMoreThanAHundredMegabytes) {
  ExpectRefused(LengthPrefix(100'000'001) + "{}", "100000001");
  ExpectRefused(std::string(8, '\xff') + "{}", "18446744073709551615");
}

TEST(SafetensorsHeader, ReadsAHeaderOfAHundredMegabytes) {
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.append(100'000'000 - header.size(), ' ');
  const auto parsed = ParseSafetensorsHeader(File(header, 1), "x");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)[0].begin, 100'000'008u);
}

TEST(SafetensorsHeader, RefusesAHundredMegabytesOfRubbish) {
  ExpectRefused(File("{\"" + std::string(100'000'000 - 2, 'a'), 0), "not JSON");
  ExpectRefused(File(std::string(100'000'000, '\0'), 0), "not JSON");
}

TEST(SafetensorsHeader, RefusesATruncatedFile) {
  ExpectRefused(File(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 15), "truncated");
}

TEST(SafetensorsHeader, RefusesReversedOffsets) {
  ExpectRefused(File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 8), "reversed");
}

TEST(SafetensorsHeader, RefusesOverlappingTensors) {
  ExpectRefused(
      File(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
          8),
      "overlap");
}

TEST(SafetensorsHeader, RefusesAByteRangeUnequalToTheShape) {
  ExpectRefused(File(R"({"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,8]}})", 8), "needs 6 bytes");
}

TEST(SafetensorsHeader, RefusesAShapeWhoseBytesOverflow) {
  // 2^32 * 2^32 * 4 wraps around to 0 in 64 bits.
  ExpectRefused(File(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
                "overflows");
  ExpectRefused(File(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0),
                "overflows");
}

TEST(SafetensorsHeader, RefusesANegativeDimension) {
  ExpectRefused(File(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
                "negative dimension -1");
}

TEST(SafetensorsHeader, RefusesADimensionThatIsNoInteger) {
  ExpectRefused(File(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4), "1.5");
}

TEST(SafetensorsHeader, RefusesATensorGivenTwice) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  ExpectRefused(File("{" + entry + "," + entry + "}", 0), "tensor a twice");
}

TEST(SafetensorsHeader, RefusesAnUnknownDtype) {
  ExpectRefused(File(R"({"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}})", 1), "\"Q4\"");
}

TEST(SafetensorsHeader, RefusesAMissingField) {
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "lacks");
}

TEST(SafetensorsHeader, RefusesAMillionBrackets) {
  ExpectRefused(File(std::string(1'000'000, '['), 0), "an array");
  std::string deep = R"({"a":)";
  for (int i = 0; i < 200'000; ++i) deep += R"({"a":)";
  ExpectRefused(File(deep, 0), "unknown field");
}

TEST(SafetensorsHeader, RefusesWhatIsNotJson) {
  ExpectRefused(File("{\"a\":nan}", 0), "not JSON");
}

TEST(SafetensorsHeader, RefusesThreeOffsets) {
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 2), "the number 2");
}

TEST(SafetensorsWriter, LaysBytesOutAsTheFormatSays) {
  const std::string file = SerializeSafetensors({{"w", "U8", {2, 1}, "hi"}, {"v", "U8", {}, "!"}});
  const std::string header =
      R"({"w":{"dtype":"U8","shape":[2,1],"data_offsets":[0,2]},"v":{"dtype":"U8","shape":[],"data_offsets":[2,3]}})";
  EXPECT_EQ(file.substr(8, header.size()), header);
  EXPECT_EQ(file.substr(file.size() - 3), "hi!");
  EXPECT_EQ((file.size() - 3) % 64, 0u);
  EXPECT_EQ(file.substr(0, 8), LengthPrefix(file.size() - 8 - 3));
}

TEST(SafetensorsWriter, RefusesBytesThatDoNotFitTheShape) {
  EXPECT_FALSE(WriteSafetensors("/nonexistent/x", {{"w", "F32", {2}, "1234"}}).ok());
}

}  // namespace
}  // namespace ropelab::formats
