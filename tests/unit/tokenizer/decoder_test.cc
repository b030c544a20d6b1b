// Expected texts are those of Hugging Face's tokenizers 0.22.2 for the same files.
#include "small_tokenizer.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;

Json Sequence(const Json& steps) {
  return {{"type", "Sequence"}, {"decoders", steps}};
}
Json ReplaceText(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

TEST(Decoder, WithoutOneTokensAreJoinedBySpaces) {
  EXPECT_EQ(Decoded(*Make(SmallTokenizer()), {1, 13}), "a abc");
  EXPECT_EQ(Decoded(*Make(SmallTokenizer()), {}), "");
}

TEST(Decoder, ByteLevelJoinsBytesAndMarksBrokenOnes) {
  auto json = SmallTokenizer();
  json["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}};
  const auto tokenizer = Make(json);
  EXPECT_EQ(Decoded(*tokenizer, {20, 21, 10, 20}), "é \uFFFD");
  EXPECT_EQ(Decoded(*tokenizer, {20}), "\uFFFD");
}

TEST(Decoder, ByteFallbackMarksEachByteOfABrokenRun) {
  auto json = SmallTokenizer();
  AddByteTokens(json, 22);
  json["decoder"] = Sequence({{{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  const auto tokenizer = Make(json);
  EXPECT_EQ(Decoded(*tokenizer, {22 + 0xE4, 22 + 0xB8, 22 + 0xAD}), "中");
  EXPECT_EQ(Decoded(*tokenizer, {22 + 0xE4, 22 + 0xB8, 1, 22 + 0x41}), "\uFFFD\uFFFDaA");
}

TEST(Decoder, StepsApplyToEachTokenUntilTheyAreFused) {
  auto json = SmallTokenizer();
  json["decoder"] =
      Sequence({ReplaceText("b", "BB"), {{"type", "Strip"}, {"content", "a"}, {"start", 1}, {"stop", 0}}});
  EXPECT_EQ(Decoded(*Make(json), {1, 11, 17, 2}), "BBaBB");
  json["decoder"] = Sequence({{{"type", "Replace"}, {"pattern", {{"Regex", "[ab]+"}}}, {"content", "#"}},
                              {{"type", "Fuse"}},
                              {{"type", "Strip"}, {"content", "#"}, {"start", 2}, {"stop", 0}}});
  EXPECT_EQ(Decoded(*Make(json), {1, 11, 17, 2, 3}), "##c");
}

TEST(Decoder, MetaspaceDropsEveryMarkOfTheFirstToken) {
  auto json = SmallTokenizer();
  json["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"add_prefix_space", true}};
  EXPECT_EQ(Decoded(*Make(json), {9, 9, 14}), "  a");
  EXPECT_EQ(Decoded(*Make(json), {15, 14}), "ab a");
  json["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "never"}};
  EXPECT_EQ(Decoded(*Make(json), {15, 14}), " ab a");
}

TEST(Decoder, IdsOutsideTheVocabularyAreRefusedAndHolesAreNothing) {
  auto json = SmallTokenizer();
  json["model"]["vocab"]["z"] = 40;
  const auto tokenizer = Make(json);
  EXPECT_EQ(Decoded(*tokenizer, {30, 40}), "z");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{41}, false).status().message(),
            "token id 41 is outside the vocabulary of 41");
  EXPECT_FALSE(tokenizer->Decode(std::vector<int32_t>{-1}, false).ok());
}

}  // namespace
}  // namespace ropelab::formats
