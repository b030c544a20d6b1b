// Expected matches come from the reference (npm @anush008/tokenizers 0.6.0, which is Hugging Face tokenizers
// 0.22.2 over Oniguruma): the cases file from its answers, and what is written here by hand from its
// documented order. Once, 2.4 million random texts over 88 patterns were compared with it in the same way,
// without a difference.
#include "worker/formats/tokenizer/split_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace ropelab::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kO200k[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kByteLevel[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct CaseText {
  std::string text;
  std::vector<std::string> matches;
};

struct Case {
  std::string pattern;
  std::vector<CaseText> texts;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case>* const cases = new std::vector<Case>{
#include "split_pattern_cases.inc"
  };
  return *cases;
}

std::shared_ptr<const SplitPattern> Compiled(std::string_view pattern) {
  auto compiled = SplitPattern::Compile(pattern);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return compiled.ok() ? *compiled : SplitPattern::Literal("");
}

std::vector<TextRange> Ranges(const SplitPattern& pattern, std::string_view text) {
  std::vector<TextRange> ranges;
  const absl::Status status = pattern.FindAll(text, ranges);
  EXPECT_TRUE(status.ok()) << status;
  return ranges;
}

std::vector<std::string> Matches(const SplitPattern& pattern, std::string_view text) {
  std::vector<std::string> matches;
  for (const TextRange& range : Ranges(pattern, text)) {
    matches.emplace_back(text.substr(range.begin, range.end - range.begin));
  }
  return matches;
}

std::string Repeated(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

TEST(SplitPatternTest, MatchesAsTheReferenceDoes) {
  for (const Case& one : Cases()) {
    const auto pattern = Compiled(one.pattern);
    for (const CaseText& text : one.texts) {
      EXPECT_EQ(Matches(*pattern, text.text), text.matches) << one.pattern << " on " << text.text;
    }
  }
}

TEST(SplitPatternTest, PutsMatchesAtTheirBytes) {
  // U+00E9 has two bytes, U+4E2D three, U+1F600 four.
  EXPECT_THAT(Ranges(*Compiled("\\p{L}+"), "\u00e9a \u4e2d-\U0001F600b"),
              ElementsAre(TextRange{0, 3}, TextRange{4, 7}, TextRange{12, 13}));
}

TEST(SplitPatternTest, AppendsToWhatIsThere) {
  std::vector<TextRange> ranges = {{7, 9}};
  ASSERT_TRUE(Compiled("b")->FindAll("ab", ranges).ok());
  EXPECT_THAT(ranges, ElementsAre(TextRange{7, 9}, TextRange{1, 2}));
}

TEST(SplitPatternTest, IgnoresCaseAsOnigurumaFolds) {
  // U+017F is a long s, U+212A the Kelvin sign.
  EXPECT_THAT(Matches(*Compiled("(?i:'s|k)"), "'S's'\u017F kK\u212A"),
              ElementsAre("'S", "'s", "'\u017F", "k", "K", "\u212A"));
}

TEST(SplitPatternTest, LeavesTheLastSpaceToTheNextWord) {
  EXPECT_THAT(Matches(*Compiled(kByteLevel), "a   b  "), ElementsAre("a", "  ", " b", "  "));
}

TEST(SplitPatternTest, FindsALiteralText) {
  const auto dots = SplitPattern::Literal("..");
  EXPECT_THAT(Ranges(*dots, "a.....b"), ElementsAre(TextRange{1, 3}, TextRange{3, 5}));
  EXPECT_TRUE(Ranges(*SplitPattern::Literal(""), "abc").empty());
}

TEST(SplitPatternTest, IsSharedBetweenThreads) {
  const auto pattern = Compiled(kLlama3);
  const std::string text = Repeated("It's 1234 \u00e9t\u00e9s,\n  \u4e2d\u6587! ", 20000);
  const std::vector<TextRange> alone = Ranges(*pattern, text);
  std::vector<std::thread> threads;
  std::vector<std::vector<TextRange>> found(4);
  for (auto& ranges : found) {
    threads.emplace_back([&] { ranges = Ranges(*pattern, text); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& ranges : found) EXPECT_EQ(ranges, alone);
}

// Quadratic time would be minutes here.
TEST(SplitPatternTest, TakesHostileTextsInLinearTime) {
  for (const char* pattern : {kByteLevel, kLlama3, kO200k}) {
    const auto compiled = Compiled(pattern);
    for (const char* unit : {" ", "a", "A", "aA", "\u0301", "\n", " \n", "\t ", "7", "'", "!", "\u3000",
                             "\u4e2d", "'S", " x", "\r", "\u2028\u00a0"}) {
      std::vector<TextRange> ranges;
      const std::string text = Repeated(unit, 1000000);
      const absl::Status status = compiled->FindAll(text, ranges);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(ranges.back().end, text.size()) << pattern << " on " << unit;
    }
  }
}

TEST(SplitPatternTest, RunsThroughALongMatchOfAGroup) {
  const std::string text = Repeated("a", 300000);
  EXPECT_THAT(Ranges(*Compiled("(?:\\w\\d?)+"), text), ElementsAre(TextRange{0, text.size()}));
}

TEST(SplitPatternTest, GivesUpNamingTheByte) {
  const std::string text = "b " + Repeated("a", 300000) + " c";
  for (const char* pattern : {"(?:a|aa)+[bc]|b", "(?:a+)+[bc]|b", "(?:a|b)+c|b"}) {
    std::vector<TextRange> ranges;
    const absl::Status status = Compiled(pattern)->FindAll(text, ranges);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << pattern;
    EXPECT_THAT(std::string(status.message()), HasSubstr("after byte 1;"));
  }
}

struct Refused {
  std::string pattern;
  size_t byte;
  std::string reason;
};

TEST(SplitPatternTest, RefusesWhatItCannotShowEqual) {
  const std::vector<Refused> all = {
      {"a|b*", 0, "can match the empty text"},
      {"", 0, "can match the empty text"},
      {"a$", 1, "line anchors"},
      {"^a", 0, "line anchors"},
      {"\\bword", 1, "this escape is not built"},
      {"\\p{Greek}", 2, "only general categories"},
      {"\\p{lu}", 2, "only general categories"},
      {"\\pL", 2, "written \\p{L}"},
      {"\\p{L", 2, "no closing brace"},
      {"(a)\\1", 4, "this escape is not built"},
      {"(?<=a)b", 0, "this kind of group"},
      {"(?<n>a)", 0, "this kind of group"},
      {"(?m:a.)", 0, "this kind of group"},
      {"(?>a|ab)c", 0, "atomic group"},
      {"b(?:ab)++c", 1, "possessive repeat of a group"},
      {"a(?i)b", 1, "this kind of group"},
      {"(?i:gro\u00dfe)", 7, "ASCII characters only"},
      {"(?i:mass)", 7, "ss, st, ff, fi and fl"},
      {"(?i:\\p{Lu})", 6, "where case is ignored"},
      {"(?i:[^a])", 5, "negated class of letters"},
      {"[[:alpha:]]", 1, "a class inside a class"},
      {"[a&&b]", 2, "intersection"},
      {"[b-a]", 1, "runs backwards"},
      {"[\\w-z]", 1, "from character to character"},
      {"[a", 1, "no closing bracket"},
      {"[]a]", 1, "an empty class"},
      {"(a", 0, "no closing parenthesis"},
      {"a)", 1, "without an opening one"},
      {"+a", 0, "nothing to repeat"},
      {"a**", 2, "directly after a repeat"},
      {"(?:a*)*b", 0, "repeating what can be empty"},
      {"(?!a)*b", 0, "look-ahead or anchor"},
      {"(?=a+)b", 0, "more than 1000 characters"},
      {"a{3,2}", 1, "reversed"},
      {"a{x}", 1, "written {n}"},
      {"a{1001}", 1, "over 1000"},
      {"a{99999999999}", 2, "over 100000"},
      {"\\x80", 1, "with braces"},
      {"\\x{110000}", 3, "no Unicode character"},
      {"\\ud800", 2, "no Unicode character"},
      {"a\\", 2, "ends the pattern"},
      {"a\xff", 1, "no valid UTF-8"},
      {std::string(200, '('), 51, "nested too deeply"},
      {std::string(20000, 'a'), 16384, "longer than"},
      {"((((a{1000}){1000}){1000}){1000})", 0, "too large"},
  };
  for (const Refused& one : all) {
    const auto compiled = SplitPattern::Compile(one.pattern);
    ASSERT_FALSE(compiled.ok()) << one.pattern;
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(compiled.status().message()),
                HasSubstr("byte " + std::to_string(one.byte) + ": "))
        << one.pattern;
    EXPECT_THAT(std::string(compiled.status().message()), HasSubstr(one.reason)) << one.pattern;
  }
}

TEST(SplitPatternTest, QuotesThePatternThatItRefuses) {
  const auto compiled = SplitPattern::Compile("\\p{L}+(?<=x)");
  EXPECT_THAT(std::string(compiled.status().message()), HasSubstr("\"\\\\p{L}+(?<=x)\", byte 6: "));
}

}  // namespace
}  // namespace ropelab::formats
