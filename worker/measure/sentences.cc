#include "worker/measure/sentences.h"

#include <algorithm>
#include <array>

namespace ropelab::measure {
namespace {

constexpr int64_t kShortest = 20, kLongest = 200;  // characters of a sentence
constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";
constexpr std::array<std::string_view, 6> kClosingMarks = {"\"",           "'",           ")", "]",
                                                           "\xE2\x80\x9D", "\xE2\x80\x99"};  // ” and ’
constexpr std::array<std::string_view, 6> kTitles = {"Mr.", "Mrs.", "Ms.", "Dr.", "St.", "Prof."};

bool RemoveOneClosingMark(std::string_view& word) {
  for (const std::string_view mark : kClosingMarks) {
    if (!word.ends_with(mark)) continue;
    word.remove_suffix(mark.size());
    return true;
  }
  return false;
}

// Whether a sentence ends after `word`; `next` is empty at the end of the text.
bool EndsSentence(std::string_view word, std::string_view next) {
  while (RemoveOneClosingMark(word)) continue;
  if (word.empty() || std::string_view(".!?").find(word.back()) == std::string_view::npos) return false;
  if (!next.empty() && next[0] >= 'a' && next[0] <= 'z') return false;
  const bool initial = word.size() == 2 && word[1] == '.' && word[0] >= 'A' && word[0] <= 'Z';
  return !initial && std::ranges::find(kTitles, word) == kTitles.end();
}

}  // namespace

int64_t CharactersOf(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(kWhiteSpace); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kWhiteSpace, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kWhiteSpace, end);
  }
  return words;
}

std::vector<std::string> SentencesOf(std::string_view text) {
  const std::vector<std::string_view> words = WordsOf(text);
  std::vector<std::string> sentences;
  std::string sentence;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!sentence.empty()) sentence += ' ';
    sentence += words[i];
    const bool last = i + 1 == words.size();
    const std::string_view next = last ? std::string_view() : words[i + 1];
    const char* const end = words[i].data() + words[i].size();
    const bool blank_line = !last && std::count(end, next.data(), '\n') >= 2;
    if (!last && !blank_line && !EndsSentence(words[i], next)) continue;
    const int64_t characters = CharactersOf(sentence);
    if (characters >= kShortest && characters <= kLongest) sentences.push_back(std::move(sentence));
    sentence.clear();
  }
  return sentences;
}

}  // namespace ropelab::measure
