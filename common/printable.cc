#include "common/printable.h"

#include <algorithm>
#include <cstdint>

namespace ropelab {
namespace {

// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  if (length == 0 || length > text.size()) {
    return 0;
  }
  uint32_t point = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t k = 1; k < length; ++k) {
    if (byte(k) >> 6 != 2) {
      return 0;
    }
    point = point << 6 | (byte(k) & 0x3Fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool well_formed =
      point >= kSmallest[length] && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
  return well_formed ? length : 0;
}

// C0, DEL, and C1, which is C2 80 to C2 9F.
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  return first < 0x20 || first == 0x7F ||
         (first == 0xC2 && character.size() == 2 && static_cast<unsigned char>(character[1]) < 0xA0);
}

}  // namespace

size_t FirstNonUtf8(std::string_view text) {
  const size_t size = text.size();
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) {
      break;
    }
    text.remove_prefix(length);
  }
  return size - text.size();
}

bool IsUtf8(std::string_view text) {
  return FirstNonUtf8(text) == text.size();
}

bool IsPlainText(std::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0 || IsControl(text.substr(0, length))) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

std::string Printable(std::string_view text, size_t most) {
  std::string shown;
  shown.reserve(std::min(text.size(), most) + 3);
  while (!text.empty()) {
    const size_t length = std::max<size_t>(CharacterLength(text), 1);
    const std::string_view character = text.substr(0, length);
    if (shown.size() + length > most) {
      return shown + "...";
    }
    const bool line_end = character == "\n" || character == "\t";
    if (CharacterLength(text) == 0 || (IsControl(character) && !line_end)) {
      shown += '?';
    } else {
      shown += character;
    }
    text.remove_prefix(length);
  }
  return shown;
}

}  // namespace ropelab
