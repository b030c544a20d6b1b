// Steps through text that is known to be valid UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace ropelab::formats {

// Bytes of the character whose first byte is `lead`.
inline size_t Utf8Length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// The code point at text[at], and moves `at` behind it. `text` is valid UTF-8, `at` lies on a character.
inline char32_t NextCodePoint(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto low = [&](size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  const char32_t lead = byte(0);
  if (lead < 0x80) {
    at += 1;
    return lead;
  }
  char32_t code_point;
  if (lead < 0xE0) {
    code_point = (lead & 0x1F) << 6 | low(1);
  } else if (lead < 0xF0) {
    code_point = (lead & 0x0F) << 12 | low(1) << 6 | low(2);
  } else {
    code_point = (lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3);
  }
  at += Utf8Length(static_cast<unsigned char>(lead));
  return code_point;
}

}  // namespace ropelab::formats
