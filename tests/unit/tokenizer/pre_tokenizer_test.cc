// Expected ids and offsets are those of Hugging Face's tokenizers 0.22.2 for the same files.
#include <ctime>

#include "small_tokenizer.h"
#include "worker/formats/tokenizer/split_behavior.h"

namespace ropelab::formats {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<int32_t>;
using Places = std::vector<std::vector<size_t>>;

Json ByteLevel(bool prefix, bool pattern, bool trim = false) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"use_regex", pattern}, {"trim_offsets", trim}};
}
Json Sequence(const Json& steps) {
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}
Json SplitAtText(const char* text, const char* behavior, bool invert) {
  return {{"type", "Split"}, {"pattern", {{"String", text}}}, {"behavior", behavior}, {"invert", invert}};
}

std::vector<std::string> PartsOf(const std::string& text, SplitBehavior behavior, bool invert) {
  std::vector<TextRange> matches, parts;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '-') matches.push_back({at, at + 1});
  }
  SplitAt(matches, text.size(), 0, behavior, invert, parts);
  std::vector<std::string> result;
  for (const TextRange& part : parts) result.push_back(text.substr(part.begin, part.end - part.begin));
  return result;
}

TEST(PreTokenizer, DelimitersGoWhereTheBehaviorSays) {
  using Parts = std::vector<std::string>;
  const std::string text = "a-b--c";
  EXPECT_EQ(PartsOf(text, SplitBehavior::kRemoved, false), (Parts{"a", "b", "c"}));
  EXPECT_EQ(PartsOf(text, SplitBehavior::kRemoved, true), (Parts{"-", "-", "-"}));
  EXPECT_EQ(PartsOf(text, SplitBehavior::kIsolated, false), (Parts{"a", "-", "b", "-", "-", "c"}));
  EXPECT_EQ(PartsOf(text, SplitBehavior::kIsolated, true), (Parts{"a", "-", "b", "-", "-", "c"}));
  EXPECT_EQ(PartsOf(text, SplitBehavior::kMergedWithPrevious, false), (Parts{"a-", "b-", "-", "c"}));
  EXPECT_EQ(PartsOf(text, SplitBehavior::kMergedWithPrevious, true), (Parts{"a", "-b", "-", "-c"}));
  EXPECT_EQ(PartsOf(text, SplitBehavior::kMergedWithNext, false), (Parts{"a", "-b", "-", "-c"}));
  EXPECT_EQ(PartsOf(text, SplitBehavior::kMergedWithNext, true), (Parts{"a-", "b-", "-", "c"}));
  EXPECT_EQ(PartsOf(text, SplitBehavior::kContiguous, false), (Parts{"a", "-", "b", "--", "c"}));
  EXPECT_EQ(PartsOf(text, SplitBehavior::kContiguous, true), (Parts{"a", "-", "b", "--", "c"}));
  EXPECT_EQ(PartsOf("-a", SplitBehavior::kMergedWithPrevious, false), (Parts{"-", "a"}));
  EXPECT_EQ(PartsOf("-a", SplitBehavior::kMergedWithNext, true), (Parts{"-", "a"}));
  EXPECT_EQ(PartsOf("", SplitBehavior::kIsolated, false), Parts());
}

TEST(PreTokenizer, PiecesAreMergedApart) {
  auto json = SmallTokenizer();
  json["pre_tokenizer"] = SplitAtText("b", "Isolated", false);
  EXPECT_EQ(Ids(*Make(json), "abc"), (Numbers{1, 2, 3}));
  json["pre_tokenizer"]["behavior"] = "MergedWithPrevious";
  EXPECT_EQ(Ids(*Make(json), "abc"), (Numbers{11, 3}));
}

TEST(PreTokenizer, ByteLevelTokensOfOneCharacterAllSpanIt) {
  auto json = SmallTokenizer();
  json["pre_tokenizer"] = ByteLevel(false, false);
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "aé a"), (Numbers{1, 20, 21, 16}));
  EXPECT_EQ(Offsets(*tokenizer, "aé a"), (Places{{0, 1}, {1, 2}, {1, 2}, {2, 4}}));
}

TEST(PreTokenizer, ByteLevelPutsASpaceBeforeATextThatHasNone) {
  auto json = SmallTokenizer();
  json["pre_tokenizer"] = ByteLevel(true, true);
  const auto tokenizer = Make(json);
  EXPECT_EQ(Ids(*tokenizer, "ab"), (Numbers{10, 11}));
  EXPECT_EQ(Offsets(*tokenizer, "ab"), (Places{{0, 1}, {0, 2}}));
  EXPECT_EQ(Offsets(*tokenizer, " ab"), (Places{{0, 1}, {1, 3}}));
  EXPECT_EQ(Offsets(*tokenizer, "é"), (Places{{0, 1}, {0, 1}, {0, 1}}));
}

TEST(PreTokenizer, ByteLevelMayBeFollowedByAnotherStep) {
  auto json = SmallTokenizer();
  json["pre_tokenizer"] = Sequence({ByteLevel(false, false), SplitAtText("Ã", "Isolated", false)});
  EXPECT_EQ(Ids(*Make(json), "aéa"), (Numbers{1, 20, 21, 1}));
  EXPECT_EQ(Offsets(*Make(json), "aéa"), (Places{{0, 1}, {1, 2}, {1, 2}, {2, 3}}));
}

TEST(PreTokenizer, MetaspacePrependsByItsScheme) {
  const std::string text = "ab a<m>ab";
  const std::vector<std::pair<std::string, Numbers>> expected = {
      {"always", {15, 14, 22, 15}}, {"first", {15, 14, 22, 11}}, {"never", {11, 14, 22, 11}}};
  for (const auto& [scheme, ids] : expected) {
    for (const bool split : {true, false}) {
      auto json = SmallTokenizer();
      json["pre_tokenizer"] = {
          {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split}};
      AddToken(json, 22, "<m>", {{"special", true}});
      EXPECT_EQ(Ids(*Make(json), text), ids) << scheme;
      EXPECT_EQ(Offsets(*Make(json), text), (Places{{0, 2}, {2, 4}, {4, 7}, {7, 9}})) << scheme;
    }
  }
}

TEST(PreTokenizer, MetaspaceInTheOldFormPrependsAlways) {
  auto json = SmallTokenizer();
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"str_rep", "▁"}, {"add_prefix_space", true}};
  EXPECT_EQ(Ids(*Make(json), "ab"), (Numbers{15}));
  EXPECT_EQ(Ids(*Make(json), "  ab"), (Numbers{9, 15}));
  json["pre_tokenizer"]["add_prefix_space"] = false;
  EXPECT_EQ(Problem(json),
            "small.json: pre_tokenizer.add_prefix_space: false contradicts prepend_scheme always; write "
            "\"prepend_scheme\": \"never\"");
}

// Each of a million pieces would look for a space through all that follow.
TEST(PreTokenizer, ManyPiecesTakeTimeInProportion) {
  auto json = SmallTokenizer();
  const Json metaspace = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "never"}};
  json["pre_tokenizer"] = Sequence({SplitAtText("1", "Isolated", false), metaspace});
  const std::clock_t start = std::clock();  // processor time: a busy machine proves nothing
  EXPECT_EQ(Ids(*Make(json), std::string(1 << 20, '1')), Numbers(1 << 20, 5));
  EXPECT_LT(std::clock() - start, 2 * CLOCKS_PER_SEC);
}

TEST(PreTokenizer, DigitsStandAloneOrTogether) {
  auto json = SmallTokenizer();
  json["model"]["vocab"]["12"] = 22;
  json["model"]["vocab"]["a1"] = 23;
  json["model"]["merges"].push_back("a 1");
  json["model"]["merges"].push_back("1 2");
  json["pre_tokenizer"] = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(Ids(*Make(json), "a12"), (Numbers{1, 5, 6}));
  json["pre_tokenizer"]["individual_digits"] = false;
  EXPECT_EQ(Ids(*Make(json), "a12"), (Numbers{1, 22}));
}

}  // namespace
}  // namespace ropelab::formats
