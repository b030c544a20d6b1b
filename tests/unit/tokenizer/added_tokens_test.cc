// Expected ids and offsets are those of Hugging Face's tokenizers 0.22.2 for the same files.
#include "small_tokenizer.h"

namespace ropelab::formats {
namespace {

using Numbers = std::vector<int32_t>;
using Places = std::vector<std::vector<size_t>>;

TEST(AddedTokens, TheLeftmostThenTheLongestIsTaken) {
  auto json = SmallTokenizer();
  AddToken(json, 22, "x1");
  AddToken(json, 23, "x122");
  AddToken(json, 24, "12");
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "x12"), (Numbers{22, 6}));
  EXPECT_EQ(Ids(*tokenizer, "x122"), (Numbers{23}));
  EXPECT_EQ(Ids(*tokenizer, "ax12x1x1222"), (Numbers{1, 22, 6, 22, 23, 6}));
}

TEST(AddedTokens, TakeTheWhiteSpaceTheyAskFor) {
  auto json = SmallTokenizer();
  AddToken(json, 22, "<l>", {{"lstrip", true}});
  AddToken(json, 23, "<r>", {{"rstrip", true}});
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "a  <l> <l>b"), (Numbers{1, 22, 22, 2}));
  EXPECT_EQ(Offsets(*tokenizer, "a  <l> <l>b"), (Places{{0, 1}, {1, 6}, {6, 10}, {10, 11}}));
  EXPECT_EQ(Ids(*tokenizer, "<r> \u3000<r>a"), (Numbers{23, 23, 1}));
  EXPECT_EQ(Offsets(*tokenizer, "<r> \u3000<r>a"), (Places{{0, 5}, {5, 8}, {8, 9}}));
}

TEST(AddedTokens, ASingleWordStandsAlone) {
  auto json = SmallTokenizer();
  AddToken(json, 22, "<w>", {{"single_word", true}});
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "a<w>"), (Numbers{1, 0, 0, 0}));
  EXPECT_EQ(Ids(*tokenizer, "a <w>"), (Numbers{1, 7, 22}));
  EXPECT_EQ(Ids(*tokenizer, "<w>-<w>1"), (Numbers{22, 8, 0, 0, 0, 5}));
}

TEST(AddedTokens, WhiteSpaceThatIsATokenMayBeTakenTwice) {
  auto json = SmallTokenizer();
  AddToken(json, 22, "<r>", {{"rstrip", true}});
  AddToken(json, 23, "  ");
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "<r>    a"), (Numbers{22, 23, 23, 1}));
  EXPECT_EQ(Offsets(*tokenizer, "<r>    a"), (Places{{0, 7}, {3, 5}, {5, 7}, {7, 8}}));
  EXPECT_EQ(Ids(*tokenizer, "<r>   a"), (Numbers{22, 23, 7, 1}));
}

TEST(AddedTokens, NormalizedOnesAreFoundInTheNormalizedText) {
  auto json = SmallTokenizer();
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "-"}}}, {"content", ""}};
  AddToken(json, 22, "x-x", {{"normalized", true}});
  AddToken(json, 23, "1-1");
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "axxb"), (Numbers{1, 22, 2}));
  EXPECT_EQ(Offsets(*tokenizer, "ax-xb"), (Places{{0, 1}, {1, 4}, {4, 5}}));
  EXPECT_EQ(Ids(*tokenizer, "1-111"), (Numbers{23, 5, 5}));
}

TEST(AddedTokens, SpecialOnesAreLeftOutOfDecodedTextOnRequest) {
  auto json = SmallTokenizer();
  AddToken(json, 22, "<s>", {{"special", true}});
  AddToken(json, 23, "<n>");
  const auto tokenizer = Make(json);
  EXPECT_EQ(Decoded(*tokenizer, {22, 1, 23, 2}), "<s> a <n> b");
  EXPECT_EQ(Decoded(*tokenizer, {22, 1, 23, 2}, true), "a <n> b");
  EXPECT_EQ(tokenizer->special_ids(), (Numbers{22}));
  EXPECT_EQ(tokenizer->vocabulary(), 24);
}

}  // namespace
}  // namespace ropelab::formats
