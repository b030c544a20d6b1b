// The cases are answers of the reference (npm @anush008/tokenizers 0.6.0). Once, the same comparison was run
// on every code point alone, after "a" and U+0345 and before U+0301 (3.3 million texts), on every combining
// mark after one of each combining class, and on 1.8 million random sequences of decomposed letters, marks,
// Hangul and characters newer than Unicode 9: no difference.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "worker/formats/tokenizer/normalized_text.h"

namespace ropelab::formats {
namespace {

struct Case {
  std::string text;
  std::string composed;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case>* const cases = new std::vector<Case>{
#include "nfc_cases.inc"
  };
  return *cases;
}

std::vector<std::pair<uint32_t, uint32_t>> Origins(const NormalizedText& text) {
  std::vector<std::pair<uint32_t, uint32_t>> origins;
  for (const NormalizedText::Origin& origin : text.origin) origins.emplace_back(origin.begin, origin.end);
  return origins;
}

TEST(ComposeNfcTest, ComposesAsTheReferenceDoes) {
  for (const Case& one : Cases()) {
    NormalizedText text{one.text, {}};
    EXPECT_EQ(ComposeNfc(text), one.text != one.composed) << one.text;
    EXPECT_EQ(text.text, one.composed) << one.text;
    EXPECT_EQ(text.origin.size(), one.text != one.composed ? text.text.size() : 0);
  }
}

// What stands between two places where the origins touch is composed from just that part of the original.
TEST(ComposeNfcTest, OriginsCoverTheTextInOrder) {
  for (const Case& one : Cases()) {
    NormalizedText text{"<" + one.text + ">", {}};
    if (!ComposeNfc(text)) continue;
    uint32_t end = 0;
    for (size_t b = 0; b < text.origin.size(); ++b) {
      const NormalizedText::Origin& origin = text.origin[b];
      const bool same = b > 0 && origin.begin == text.origin[b - 1].begin;
      ASSERT_EQ(origin.begin, same ? text.origin[b - 1].begin : end) << one.text << " byte " << b;
      ASSERT_TRUE(!same || origin.end == end) << one.text << " byte " << b;
      ASSERT_LT(origin.begin, origin.end);
      end = origin.end;
    }
    EXPECT_EQ(end, one.text.size() + 2) << one.text;
  }
}

TEST(ComposeNfcTest, SaysWhereComposedCharactersCameFrom) {
  NormalizedText text{"xe\u0301y", {}};
  EXPECT_TRUE(ComposeNfc(text));
  EXPECT_EQ(text.text, "x\u00e9y");
  EXPECT_EQ(Origins(text), (std::vector<std::pair<uint32_t, uint32_t>>{{0, 1}, {1, 4}, {1, 4}, {4, 5}}));
}

TEST(ComposeNfcTest, LooksThroughAnEarlierChange) {
  // A step before put "ae" for the first two bytes of the original, and kept the accent.
  NormalizedText text{"ae\u0301", {{0, 2}, {0, 2}, {2, 3}, {3, 4}}};
  EXPECT_TRUE(ComposeNfc(text));
  EXPECT_EQ(text.text, "a\u00e9");
  EXPECT_EQ(Origins(text), (std::vector<std::pair<uint32_t, uint32_t>>{{0, 2}, {0, 4}, {0, 4}}));
}

TEST(ComposeNfcTest, LeavesComposedTextAlone) {
  for (const char* same : {"", "plain", "\u00e9t\u00e9 \u4e2d\u6587 \uac01 \U0001F600"}) {
    NormalizedText text{same, {}};
    EXPECT_FALSE(ComposeNfc(text)) << same;
    EXPECT_EQ(text.text, same);
    EXPECT_TRUE(text.origin.empty());
  }
}

}  // namespace
}  // namespace ropelab::formats
