// Makes a changed copy of a text, from left to right, that still knows where its bytes came from.
#pragma once

#include <cstdint>
#include <string_view>

#include "worker/formats/tokenizer/normalized_text.h"
#include "worker/formats/tokenizer/split_pattern.h"

namespace ropelab::formats {

// Where bytes [begin, end) of `text` came from; begin < end.
inline NormalizedText::Origin OriginOf(const NormalizedText& text, size_t begin, size_t end) {
  if (text.origin.empty()) return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  const NormalizedText::Origin first = text.origin[begin];
  const uint32_t last = text.origin[end - 1].end;
  return {first.begin, last < first.begin ? first.end : last};
}

class TextRewriter {
 public:
  // `source` must outlive the rewriter.
  explicit TextRewriter(const NormalizedText& source);
  // Copies bytes [begin, end) of the source.
  void Keep(size_t begin, size_t end);
  // Adds `text`, which stands for `origin`.
  void Put(std::string_view text, NormalizedText::Origin origin);
  // The length so far.
  size_t size() const { return result_.text.size(); }
  NormalizedText Take() { return std::move(result_); }

 private:
  const NormalizedText& source_;
  NormalizedText result_;
};

// Bytes [begin, end) as a text of its own. Its origins stay where they were; without any they count from
// `begin`, which the caller adds.
NormalizedText Slice(const NormalizedText& text, size_t begin, size_t end);

}  // namespace ropelab::formats
