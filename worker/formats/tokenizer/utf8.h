// Steps over text that is known to be well-formed UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ropelab::formats {

inline bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Bytes of the character that starts with `lead`.
inline size_t CharacterBytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character that starts at `at`.
inline char32_t CharacterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t k) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + k])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return lead;
  if (lead < 0xE0) return (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  if (lead < 0xF0) return (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

// Where the character starts that ends just before `end` (> 0).
inline size_t PreviousCharacter(std::string_view text, size_t end) {
  --end;
  while (end > 0 && IsContinuation(text[end])) --end;
  return end;
}

void AppendCharacter(char32_t character, std::string& text);

// `bytes` as text: each ill-formed part becomes one U+FFFD (Unicode's maximal subparts).
std::string LossyUtf8(std::string_view bytes);

}  // namespace ropelab::formats
