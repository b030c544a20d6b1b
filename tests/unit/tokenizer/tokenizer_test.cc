#include <thread>

#include "small_tokenizer.h"

namespace ropelab::formats {
namespace {

TEST(Tokenizer, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  const auto tokenizer = Make(SmallTokenizer());
  for (const char* text : {"ab\xFF", "ab\xC3", "ab\xE0\x80\x80", "ab\xED\xA0\x80", "ab\xF4\x90\x80\x80"}) {
    EXPECT_EQ(tokenizer->Encode(text, false).status().message(), "the text's byte 2 is not UTF-8");
  }
}

TEST(Tokenizer, CharacterSpansCountCodePoints) {
  const std::string text = "aé中😀";  // 1, 2, 3 and 4 bytes
  const std::vector<TokenSpan> spans = {{0, 0}, {6, 10}, {0, 1}, {1, 6}, {10, 10}};
  const std::vector<TokenSpan> characters = CharacterSpans(text, spans);
  const std::vector<std::pair<size_t, size_t>> expected = {{0, 0}, {3, 4}, {0, 1}, {1, 3}, {4, 4}};
  ASSERT_EQ(characters.size(), expected.size());
  for (size_t k = 0; k < expected.size(); ++k) {
    EXPECT_EQ(characters[k].begin, expected[k].first);
    EXPECT_EQ(characters[k].end, expected[k].second);
  }
}

TEST(Tokenizer, ManyThreadsGetTheSameTokens) {
  const auto tokenizer = Make(SmallTokenizer());
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> expected;
  for (int k = 0; k < 200; ++k) {
    texts.push_back(std::string(static_cast<size_t>(k), 'a') + "bc x" + std::to_string(k) + "aabc-");
    expected.push_back(Ids(*tokenizer, texts.back()));
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t thread = 0; thread < wrong.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 20; ++round) {
        for (size_t k = 0; k < texts.size(); ++k) wrong[thread] += Ids(*tokenizer, texts[k]) != expected[k];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

}  // namespace
}  // namespace ropelab::formats
