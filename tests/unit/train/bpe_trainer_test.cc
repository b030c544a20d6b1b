#include "worker/train/bpe_trainer.h"

#include <gtest/gtest.h>

#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/train/recipe.h"
#include "worker/train/sample_text.h"

namespace ropelab::train {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The example of Sennrich, Haddow and Birch 2016, without their end-of-word mark; counted by hand.
TEST(BpeTrainerTest, MergesTheMostFrequentPairAndOfATieTheFirst) {
  const WordCounts counts = {{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}};
  const ByteMerges merges = TrainMerges(counts, kFixedTokens + 7);
  // e s and s t stand 9 times each; then l o and o w 7; then e w, n e and w est 6 each; then d est 3, w i and
  // i d 3, e r 2 ...
  EXPECT_EQ(
      merges.merges,
      (Pairs{{"e", "s"}, {"es", "t"}, {"l", "o"}, {"lo", "w"}, {"e", "w"}, {"ew", "est"}, {"n", "ewest"}}));
  EXPECT_EQ(merges.tokens.size(), 256u + 7);
  EXPECT_EQ(merges.tokens.back(), "newest");
}

TEST(BpeTrainerTest, EndsWhenNoPairStandsTwice) {
  const ByteMerges merges = TrainMerges({{"abab", 1}, {"xy", 1}}, 1000);
  EXPECT_EQ(merges.merges, (Pairs{{"a", "b"}}));
}

TEST(BpeTrainerTest, AppliesAMergeFromTheLeft) {
  const ByteMerges merges = TrainMerges({{"aaa", 2}}, 1000);
  EXPECT_EQ(merges.merges, (Pairs{{"a", "a"}, {"aa", "a"}}));
}

TEST(BpeTrainerTest, CutsWordsWithTheSpaceBeforeThem) {
  WordCounts counts;
  ASSERT_TRUE(CountWords("The cat's 12 mats.\n\nThe", counts).ok());
  EXPECT_EQ(counts,
            (WordCounts{{"The", 2}, {" cat", 1}, {"'s", 1}, {" 12", 1}, {" mats", 1}, {".", 1}, {"\n", 2}}));
}

class TrainedTokenizerTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto counts = CountTrainingWords(42, 3000, 0.5);
    ASSERT_TRUE(counts.ok()) << counts.status();
    json_ = TokenizerJson(TrainMerges(*counts, 768));
    const auto tokenizer = formats::Tokenizer::Parse(json_, "tokenizer.json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *tokenizer;
  }
  std::string json_;
  std::shared_ptr<const formats::Tokenizer> tokenizer_;
};

TEST_F(TrainedTokenizerTest, GivesBackEveryText) {
  EXPECT_EQ(tokenizer_->vocabulary(), 768);
  for (const std::string text : {"The potter sold the kettle.", "  spaces\t and\n\nlines ",
                                 "Grüße, 東京 \xF0\x9F\x99\x82", "K3Q9Z", ""}) {
    const auto encoding = tokenizer_->Encode(text, true);
    ASSERT_TRUE(encoding.ok()) << encoding.status();
    EXPECT_EQ(encoding->ids.at(0), kBeginId);
    EXPECT_EQ(tokenizer_->Decode(encoding->ids, true).value(), text);
  }
}

// Codes are copied character by character; a merged pair would be one of 1296 rare tokens.
TEST_F(TrainedTokenizerTest, LeavesTheCharactersOfCodesApart) {
  for (const std::string code : {"K3Q9Z", "ABCDE", "12345", "THE1N", "0A0B0"}) {
    const auto plain = tokenizer_->Encode(" " + code, false);
    ASSERT_TRUE(plain.ok());
    EXPECT_GE(plain->ids.size(), 5u) << code;
  }
}

TEST_F(TrainedTokenizerTest, IsTheSameForTheSameSeed) {
  EXPECT_EQ(json_, TokenizerJson(TrainMerges(*CountTrainingWords(42, 3000, 0.5), 768)));
  EXPECT_NE(json_, TokenizerJson(TrainMerges(*CountTrainingWords(43, 3000, 0.5), 768)));
}

}  // namespace
}  // namespace ropelab::train
