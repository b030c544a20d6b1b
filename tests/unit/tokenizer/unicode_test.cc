#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "tests/unit/absent.h"
#include "worker/formats/tokenizer/class_alphabet.h"
#include "worker/formats/tokenizer/unicode_classes.h"

namespace ropelab::formats {
namespace {

constexpr CodePointRange kSurrogates = {0xD800, 0xDFFF};

// The set's ranges without surrogates, which no text has.
std::vector<CodePointRange> Characters(const CodePointSet& set) {
  std::vector<CodePointRange> without = set.Complement().ranges();
  without.push_back(kSurrogates);
  return CodePointSet(std::move(without)).Complement().ranges();
}

void Describe(const std::string& name, const CodePointSet& set, std::string& out) {
  absl::StrAppend(&out, name, "\n");
  for (const CodePointRange& range : Characters(set)) {
    absl::StrAppend(&out, absl::Hex(uint32_t{range.first}), "-", absl::Hex(uint32_t{range.last}), "\n");
  }
}

// The reference (npm @anush008/tokenizers 0.6.0) was asked for each class, for every code point but
// surrogates, with a Split pattern that removes the class from a text of all of them (as
// make_unicode_classes.mjs does, but each class by its own pattern). Its answers as lines "name", then
// "first-last" for each range, have this SHA-256.
TEST(UnicodeClassesTest, AreTheReferences) {
  std::string all;
  for (const char* name : {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd",
                           "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc",
                           "Cf", "Cs", "Co", "Cn", "L",  "M",  "N",  "P",  "S",  "Z",  "C"}) {
    const std::optional<CodePointSet> set = GeneralCategorySet(name);
    ASSERT_TRUE(set.has_value()) << name;
    Describe(absl::StrCat("\\p{", name, "}"), *set, all);
  }
  Describe("\\s", SpaceSet(), all);
  Describe("\\d", DigitSet(), all);
  Describe("\\w", WordSet(), all);
  Describe("[\\w]", BracketedWordSet(), all);
  EXPECT_EQ(Sha256Hex(all), "9143e1499606bff731d6a99b35316e9c1b7f415e17e819eb7965d0a85e0e5694");
}

TEST(UnicodeClassesTest, AreThoseOfTheFixtures) {
  const char* root = std::getenv("ROPELAB_FIXTURES");
  const auto path = std::filesystem::path(root != nullptr ? root : ROPELAB_FIXTURES_DEFAULT) / "tokenizers" /
                    "onig_class_ranges.json";
  if (!std::filesystem::exists(path)) ROPELAB_ABSENT(path.string() + " (ROPELAB_FIXTURES)");
  const auto ranges = nlohmann::json::parse(std::ifstream(path));
  const auto expect = [&](const std::string& name, const CodePointSet& set) {
    std::vector<CodePointRange> expected;
    for (const auto& range : ranges.at(name)) expected.push_back({range[0], range[1]});
    EXPECT_EQ(Characters(set), expected) << name;
  };
  for (const char* name : {"L", "N", "M", "P", "S", "Lu", "Ll", "Lt", "Lm", "Lo"}) {
    expect(absl::StrCat("\\p{", name, "}"), *GeneralCategorySet(name));
  }
  expect("\\s", SpaceSet());
  expect("\\S", SpaceSet().Complement());
  expect("\\d", DigitSet());
  expect("\\w", WordSet());
  for (const char letter : std::string("stmd")) {
    expect(absl::StrCat("(?i:'", std::string(1, letter), ")"), CaseVariants(letter));
  }
  for (const char letter : std::string("lrev")) {
    expect(absl::StrCat("(?i:", std::string(1, letter), ")"), CaseVariants(letter));
  }
}

TEST(UnicodeClassesTest, KnowOnlyGeneralCategories) {
  for (const char* name : {"", "l", "Lx", "Han", "LU", "L "}) EXPECT_FALSE(GeneralCategorySet(name)) << name;
}

TEST(CodePointSetTest, JoinsOverlappingAndAdjacentRanges) {
  const CodePointSet set({{10, 20}, {0, 3}, {21, 30}, {15, 18}, {40, 40}});
  EXPECT_EQ(set.ranges(), (std::vector<CodePointRange>{{0, 3}, {10, 30}, {40, 40}}));
  EXPECT_EQ(set.Complement().ranges(), (std::vector<CodePointRange>{{4, 9}, {31, 39}, {41, 0x10FFFF}}));
  EXPECT_EQ(set.Complement().Complement(), set);
  EXPECT_TRUE(set.Contains(0) && set.Contains(30) && !set.Contains(31) && !set.Contains(0x10FFFF));
  EXPECT_EQ(CodePointSet().Complement().ranges(), (std::vector<CodePointRange>{{0, 0x10FFFF}}));
  EXPECT_TRUE(CodePointSet().Complement().Complement().ranges().empty());
}

TEST(ClassAlphabetTest, TellsApartWhatTheSetsTellApart) {
  const std::vector<CodePointSet> sets = {*GeneralCategorySet("L"), *GeneralCategorySet("Lu"), SpaceSet(),
                                          CodePointSet({{'a', 'a'}, {0x10FFFF, 0x10FFFF}})};
  const auto alphabet = ClassAlphabet::Make(sets);
  ASSERT_TRUE(alphabet.has_value());
  // Capital letters, other letters, spaces, a, U+10FFFF, the rest.
  EXPECT_EQ(alphabet->symbols(), 6);
  for (char32_t c = 0; c <= kLastCodePoint; ++c) {
    for (size_t set = 0; set < sets.size(); ++set) {
      const std::vector<uint8_t>& symbols = alphabet->SymbolsOf(set);
      const bool member = std::find(symbols.begin(), symbols.end(), alphabet->SymbolOf(c)) != symbols.end();
      ASSERT_EQ(member, sets[set].Contains(c)) << uint32_t{c};
    }
  }
}

TEST(ClassAlphabetTest, HasAtMost250Symbols) {
  std::vector<CodePointSet> sets;
  for (char32_t c = 0; c < 249; ++c) sets.push_back(CodePointSet({{c, c}}));
  ASSERT_TRUE(ClassAlphabet::Make(sets).has_value());
  EXPECT_EQ(ClassAlphabet::Make(sets)->symbols(), 250);
  sets.push_back(CodePointSet({{249, 249}}));
  EXPECT_FALSE(ClassAlphabet::Make(sets).has_value());
}

TEST(ClassAlphabetTest, MapsCharactersOfEveryLengthAtEveryPlace) {
  const auto alphabet = ClassAlphabet::Make({*GeneralCategorySet("L"), *GeneralCategorySet("S"), SpaceSet()});
  ASSERT_TRUE(alphabet.has_value());
  const std::vector<std::pair<char32_t, std::string>> characters = {
      {'a', "a"},         {' ', " "},         {0xE9, "\u00e9"},
      {0x20AC, "\u20ac"}, {0x4E2D, "\u4e2d"}, {0x1F600, "\U0001F600"}};
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    std::vector<uint8_t> expected;
    const size_t ascii_run = random() % 30;  // runs of ASCII take another path than the rest
    for (size_t i = 0; i < 40; ++i) {
      const auto& [code_point, bytes] =
          characters[i < ascii_run ? random() % 2 : random() % characters.size()];
      text += bytes;
      expected.push_back(alphabet->SymbolOf(code_point));
    }
    std::vector<uint8_t> symbols(text.size());
    symbols.resize(alphabet->Map(text, symbols.data()));
    ASSERT_EQ(symbols, expected) << text;
  }
}

}  // namespace
}  // namespace ropelab::formats
