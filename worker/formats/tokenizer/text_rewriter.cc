#include "worker/formats/tokenizer/text_rewriter.h"

namespace ropelab::formats {

TextRewriter::TextRewriter(const NormalizedText& source) : source_(source) {
  result_.text.reserve(source.text.size() + source.text.size() / 8);
  result_.origin.reserve(source.text.size() + source.text.size() / 8);
}

void TextRewriter::Keep(size_t begin, size_t end) {
  result_.text.append(source_.text, begin, end - begin);
  if (!source_.origin.empty()) {
    result_.origin.insert(result_.origin.end(), source_.origin.begin() + static_cast<ptrdiff_t>(begin),
                          source_.origin.begin() + static_cast<ptrdiff_t>(end));
    return;
  }
  for (auto at = static_cast<uint32_t>(begin); at < end; ++at) result_.origin.push_back({at, at + 1});
}

void TextRewriter::Put(std::string_view text, NormalizedText::Origin origin) {
  result_.text.append(text);
  result_.origin.insert(result_.origin.end(), text.size(), origin);
}

NormalizedText Slice(const NormalizedText& text, size_t begin, size_t end) {
  NormalizedText slice;
  slice.text = text.text.substr(begin, end - begin);
  if (!text.origin.empty()) {
    slice.origin.assign(text.origin.begin() + static_cast<ptrdiff_t>(begin),
                        text.origin.begin() + static_cast<ptrdiff_t>(end));
  }
  return slice;
}

}  // namespace ropelab::formats
