#include "worker/formats/finite.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace ropelab::formats {
namespace {

template <typename Word>
std::string Bytes(const std::vector<Word>& words) {
  std::string bytes(words.size() * sizeof(Word), '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

TEST(AllFinite, AgreesWithTheStandardLibraryOnEveryBFloat16) {
  for (uint32_t word = 0; word < 65536; ++word) {
    // The upper half of a float.
    const bool finite = std::isfinite(std::bit_cast<float>(word << 16));
    EXPECT_EQ(AllFinite("BF16", Bytes(std::vector<uint16_t>{static_cast<uint16_t>(word)})), finite) << word;
  }
}

// IEEE 754 binary16: 65504 is the largest number, 0x7c00 infinity, all above it NaN.
TEST(AllFinite, KnowsTheBoundsOfFloat16) {
  for (uint32_t word = 0; word < 65536; ++word) {
    const bool finite = (word & 0x7fff) <= 0x7bff;
    EXPECT_EQ(AllFinite("F16", Bytes(std::vector<uint16_t>{static_cast<uint16_t>(word)})), finite) << word;
  }
}

TEST(AllFinite, FindsOneBadFloatAtAnyPlaceAndAlignment) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> good = {0.0f, -0.0f, Limits::max(), Limits::lowest(), Limits::denorm_min()};
  for (const size_t count : {1u, 5u, 1023u, 1024u, 1025u, 4100u}) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = good[i % good.size()];
    EXPECT_TRUE(AllFinite("F32", Bytes(values)));
    for (const size_t at : {size_t{0}, count / 2, count - 1}) {
      for (const float bad :
           {Limits::quiet_NaN(), Limits::signaling_NaN(), Limits::infinity(), -Limits::infinity()}) {
        std::vector<float> spoiled = values;
        spoiled[at] = bad;
        std::string bytes = Bytes(spoiled);
        bytes.insert(bytes.begin(), 'x');
        EXPECT_FALSE(AllFinite("F32", std::string_view(bytes).substr(1))) << count << " " << at;
      }
    }
  }
}

TEST(AllFinite, HasNothingAgainstIntegersAndNothing) {
  EXPECT_TRUE(AllFinite("I64", std::string(16, '\xff')));
  EXPECT_TRUE(AllFinite("F32", ""));
}

}  // namespace
}  // namespace ropelab::formats
