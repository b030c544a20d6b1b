// Expected ids and offsets are those of Hugging Face's tokenizers 0.22.2 for the same files, unless a test
// says otherwise.
#include <ctime>

#include "small_tokenizer.h"
#include "tests/unit/sanitized.h"

namespace ropelab::formats {
namespace {

using Numbers = std::vector<int32_t>;
using Places = std::vector<std::vector<size_t>>;

TEST(Bpe, MergesTheLowestRankFirstAndTheLeftmostOfEquals) {
  const auto tokenizer = Make(SmallTokenizer());
  EXPECT_EQ(Ids(*tokenizer, "abc"), (Numbers{13}));
  EXPECT_EQ(Ids(*tokenizer, "aabc"), (Numbers{1, 13}));
  EXPECT_EQ(Ids(*tokenizer, "aaaaa"), (Numbers{18, 1}));
  EXPECT_EQ(Ids(*tokenizer, "abcab"), (Numbers{13, 11}));
  EXPECT_EQ(Ids(*tokenizer, ""), Numbers());
}

TEST(Bpe, AMergeGivenTwiceHasTheLaterRank) {
  auto json = SmallTokenizer();
  json["model"]["merges"] = {"a b", "b c", "a b"};
  EXPECT_EQ(Ids(*Make(json), "abc"), (Numbers{1, 12}));
}

TEST(Bpe, UnknownCharactersBecomeTheUnknownToken) {
  auto json = SmallTokenizer();
  EXPECT_EQ(Ids(*Make(json), "azzb"), (Numbers{1, 0, 0, 2}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(Ids(*Make(json), "azzb"), (Numbers{1, 0, 2}));
  EXPECT_EQ(Offsets(*Make(json), "azzb"), (Places{{0, 1}, {1, 3}, {3, 4}}));
}

TEST(Bpe, WithoutAnUnknownTokenUnknownCharactersVanish) {
  auto json = SmallTokenizer();
  json["model"]["unk_token"] = nullptr;
  EXPECT_EQ(Ids(*Make(json), "azzb"), (Numbers{11}));
  EXPECT_EQ(Ids(*Make(json), "z"), Numbers());
  // The reference says [0, 2]: it loses count. The token covers all four characters.
  EXPECT_EQ(Offsets(*Make(json), "azzb"), (Places{{0, 4}}));
}

TEST(Bpe, AnUnknownTokenThatIsNotInTheVocabularyIsAnErrorWhereItIsNeeded) {
  auto json = SmallTokenizer();
  json["model"]["unk_token"] = "<none>";
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "ab"), (Numbers{11}));
  const auto encoding = tokenizer->Encode("abz", false);
  EXPECT_EQ(encoding.status().message(),
            "model.unk_token: '<none>' is needed for this text and is not in model.vocab");
}

TEST(Bpe, ByteFallbackSpellsACharacterWhoseBytesAllHaveTokens) {
  auto json = SmallTokenizer();
  json["model"]["byte_fallback"] = true;
  AddByteTokens(json, 22);
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "a中b"), (Numbers{1, 250, 206, 195, 2}));
  EXPECT_EQ(Offsets(*tokenizer, "a中b"), (Places{{0, 1}, {1, 2}, {1, 2}, {1, 2}, {2, 3}}));
}

TEST(Bpe, UnknownCharactersComeAfterByteTokensThatFollowThem) {
  auto json = SmallTokenizer();
  json["model"]["byte_fallback"] = true;
  json["model"]["vocab"]["<0x21>"] = 22;
  EXPECT_EQ(Ids(*Make(json), "a中!"), (Numbers{1, 22, 0}));
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(Ids(*Make(json), "中!中"), (Numbers{22, 0}));
  EXPECT_EQ(Ids(*Make(json), "!中"), (Numbers{22, 0}));
}

TEST(Bpe, IgnoreMergesKeepsAWholePieceThatIsAToken) {
  auto json = SmallTokenizer();
  json["model"]["merges"] = {"a b", "b c"};
  EXPECT_EQ(Ids(*Make(json), "abc"), (Numbers{11, 3}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(Ids(*Make(json), "abc"), (Numbers{13}));
  EXPECT_EQ(Ids(*Make(json), "abcab"), (Numbers{11, 3, 11}));
}

// The cache, the cuts of long texts, the heap and the plain search must not be seen: a word has the tokens
// that it has when it comes alone.
TEST(Bpe, LongTextsHaveTheTokensOfTheirParts) {
  const auto tokenizer = Make(SmallTokenizer());
  std::string text;
  Numbers expected;
  for (int k = 0; k < 3000; ++k) {
    text += "abc-x1aabcaaaa ";  // no merge crosses from 'c' to '-', nor any other seam here
    for (const int32_t id : {13, 8, 4, 5, 1, 13, 18, 7}) expected.push_back(id);
  }
  EXPECT_EQ(Ids(*tokenizer, text), expected);
  EXPECT_EQ(Ids(*tokenizer, text), expected);
}

TEST(Bpe, OneWordOfAMegabyteTakesLessThanASecond) {
  const auto tokenizer = Make(SmallTokenizer());
  const std::string word(1 << 20, 'a');
  const std::clock_t start = std::clock();  // processor time: a busy machine proves nothing
  EXPECT_EQ(Ids(*tokenizer, word), Numbers(1 << 18, 18));
  if (!kSanitized) {
    EXPECT_LT(std::clock() - start, 1 * CLOCKS_PER_SEC);
  }
}

TEST(Bpe, MergesOfByteTokensAreAppliedAcrossTheWholeText) {
  auto json = SmallTokenizer();
  json["model"]["byte_fallback"] = true;
  AddByteTokens(json, 22);
  json["model"]["vocab"]["<0xE4><0xB8>"] = 278;
  json["model"]["merges"].push_back("<0xE4> <0xB8>");
  const std::string many(100, '-');
  Numbers expected(100, 8);
  for (const int32_t id : {278, 195, 1}) expected.push_back(id);
  EXPECT_EQ(Ids(*Make(json), many + "中a"), expected);
}

}  // namespace
}  // namespace ropelab::formats
