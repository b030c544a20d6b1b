#include "worker/formats/tokenizer/literal_finder.h"

#include <gtest/gtest.h>

#include <random>

namespace ropelab::formats {
namespace {

// By trying every literal at every place.
std::optional<LiteralFinder::Match> Search(const std::vector<std::string>& literals, const std::string& text,
                                           size_t from) {
  for (size_t at = from; at < text.size(); ++at) {
    std::optional<LiteralFinder::Match> best;
    for (size_t k = 0; k < literals.size(); ++k) {
      const bool here = text.compare(at, literals[k].size(), literals[k]) == 0;
      if (here && (!best || at + literals[k].size() > best->end)) best = {at, at + literals[k].size(), k};
    }
    if (best) return best;
  }
  return std::nullopt;
}

TEST(LiteralFinder, AgreesWithASearchOfEveryPlace) {
  std::mt19937 random(7);
  const auto text_of = [&](size_t size) {
    std::string text;
    for (size_t k = 0; k < size; ++k) text += "ab\xC3"[random() % 3];
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> literals;
    for (size_t k = 0; k < 1 + random() % 6; ++k) literals.push_back(text_of(1 + random() % 6));
    const LiteralFinder finder(literals);
    const std::string text = text_of(random() % 60);
    for (size_t from = 0;;) {
      const auto expected = Search(literals, text, from);
      const auto found = finder.Find(text, from);
      ASSERT_EQ(found.has_value(), expected.has_value()) << text << " from " << from;
      if (!found) break;
      ASSERT_EQ(found->begin, expected->begin);
      ASSERT_EQ(found->end, expected->end);
      ASSERT_EQ(found->which, expected->which);
      from = found->end;
    }
  }
}

TEST(LiteralFinder, WithoutLiteralsNothingIsFound) {
  const LiteralFinder finder({});
  EXPECT_TRUE(finder.empty());
  EXPECT_FALSE(finder.Find("abc", 0).has_value());
}

}  // namespace
}  // namespace ropelab::formats
