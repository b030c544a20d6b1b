// Expected ids and offsets are those of Hugging Face's tokenizers 0.22.2 for the same files, unless a test
// says otherwise.
#include "small_tokenizer.h"

namespace ropelab::formats {
namespace {

using Numbers = std::vector<int32_t>;
using Places = std::vector<std::vector<size_t>>;

TEST(Normalizer, PrependsToEachTextBetweenAddedTokens) {
  auto json = SmallTokenizer();
  json["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "Prepend"}, {"prepend", "▁"}},
                          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}};
  AddToken(json, 22, "<m>", {{"special", true}});
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "a b"), (Numbers{14, 9, 2}));
  EXPECT_EQ(Offsets(*tokenizer, "a b"), (Places{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(Ids(*tokenizer, "<m>a b"), (Numbers{22, 14, 9, 2}));
  EXPECT_EQ(Offsets(*tokenizer, "<m>a b"), (Places{{0, 3}, {3, 4}, {4, 5}, {5, 6}}));
  EXPECT_EQ(Ids(*tokenizer, ""), Numbers());
}

TEST(Normalizer, ReplacementsAreTakenLiterally) {
  auto json = SmallTokenizer();
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "[12]+"}}}, {"content", "$1"}};
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "a121b"), (Numbers{1, 0, 5, 2}));
  // The reference says [3, 4]; all that was replaced is meant here.
  EXPECT_EQ(Offsets(*tokenizer, "a121b"), (Places{{0, 1}, {1, 4}, {1, 4}, {4, 5}}));
}

TEST(Normalizer, ComposedCharactersSpanAllTheirParts) {
  auto json = SmallTokenizer();
  json["normalizer"] = {{"type", "NFC"}};
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "ae\u0301a"), (Numbers{1, 19, 1}));
  // The reference says [1, 2] and loses the accent.
  EXPECT_EQ(Offsets(*tokenizer, "ae\u0301a"), (Places{{0, 1}, {1, 3}, {3, 4}}));
}

}  // namespace
}  // namespace ropelab::formats
