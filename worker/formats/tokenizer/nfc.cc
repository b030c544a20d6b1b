#include <spdlog/spdlog.h>
#include <unicode/bytestream.h>
#include <unicode/edits.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "worker/formats/tokenizer/normalized_text.h"

namespace ropelab::formats {
namespace {

// The reference composes by Unicode 9.0's data: of all code points alone, before U+0301 and after U+0345 (the
// last class in canonical order), exactly those of a later version come out otherwise than from newer data.
constexpr char kKnownCharacters[] = "[:age=9.0:]";

const icu::Normalizer2* MakeComposer() {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* const newest = icu::Normalizer2::getNFCInstance(error);
  icu::UnicodeSet* const known = new icu::UnicodeSet(icu::UnicodeString(kKnownCharacters), error);
  known->freeze();
  // Both tables are part of the library's code. Going on without them would give wrong ids.
  if (U_FAILURE(error) != 0) {
    spdlog::critical("ICU has no composition data ({}); its installation is damaged", u_errorName(error));
    std::abort();
  }
  return new icu::FilteredNormalizer2(*newest, *known);  // both live as long as the program
}

const icu::Normalizer2* Composer() {
  static const icu::Normalizer2* const composer = MakeComposer();
  return composer;
}

bool IsAscii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
}

// The old bytes that the new ones from [begin, end) of the text before stand for.
NormalizedText::Origin OriginOf(const std::vector<NormalizedText::Origin>& before, size_t begin, size_t end) {
  if (before.empty()) return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  NormalizedText::Origin origin = before[begin];
  for (size_t b = begin + 1; b < end; ++b) {
    origin.begin = std::min(origin.begin, before[b].begin);
    origin.end = std::max(origin.end, before[b].end);
  }
  return origin;
}

}  // namespace

bool ComposeNfc(NormalizedText& text) {
  if (IsAscii(text.text) || text.text.size() > std::numeric_limits<int32_t>::max()) return false;
  const icu::Normalizer2* const composer = Composer();
  const icu::StringPiece piece(text.text.data(), static_cast<int32_t>(text.text.size()));
  UErrorCode error = U_ZERO_ERROR;
  if (composer->isNormalizedUTF8(piece, error) != 0) return false;

  NormalizedText result;
  icu::StringByteSink<std::string> sink(&result.text, piece.length());
  icu::Edits edits;
  composer->normalizeUTF8(0, piece, sink, &edits, error);
  if (U_FAILURE(error) != 0) throw std::bad_alloc();  // valid input fails for no other reason
  if (!edits.hasChanges()) return false;

  result.origin.reserve(result.text.size());
  for (icu::Edits::Iterator edit = edits.getFineIterator(); edit.next(error) != 0;) {
    const auto begin = static_cast<size_t>(edit.sourceIndex());
    const auto length = static_cast<size_t>(edit.oldLength());
    for (size_t b = 0; b < static_cast<size_t>(edit.newLength()); ++b) {
      // A changed stretch stands for the whole of what it replaces.
      const bool changed = edit.hasChange() != 0;
      result.origin.push_back(changed ? OriginOf(text.origin, begin, begin + length)
                                      : OriginOf(text.origin, begin + b, begin + b + 1));
    }
  }
  text = std::move(result);
  return true;
}

}  // namespace ropelab::formats
