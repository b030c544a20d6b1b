#include <algorithm>

#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {

// Spans come nearly in order, so a cursor that counts on from the last place makes this linear.
std::vector<TokenSpan> CharacterSpans(std::string_view text, const std::vector<TokenSpan>& spans) {
  size_t byte = 0;
  size_t character = 0;
  const auto count = [&](size_t target) {
    while (byte > target) character -= IsContinuation(text[--byte]) ? 0 : 1;
    while (byte < target) character += IsContinuation(text[byte++]) ? 0 : 1;
    return character;
  };
  std::vector<TokenSpan> result;
  result.reserve(spans.size());
  for (const TokenSpan& span : spans) {
    if (span.begin == span.end && span.begin == 0) {
      result.push_back({});
      continue;
    }
    const size_t begin = count(std::min(span.begin, text.size()));
    result.push_back({begin, count(std::min(span.end, text.size()))});
  }
  return result;
}

}  // namespace ropelab::formats
