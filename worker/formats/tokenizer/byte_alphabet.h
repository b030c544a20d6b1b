// The printable characters that stand for single bytes in byte-level vocabularies (GPT-2's table): a byte
// that prints as a character of Latin-1 is that character, the other 68 are U+0100, U+0101, ... in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ropelab::formats {

// The character of `byte`, in UTF-8.
std::string_view CharacterOfByte(uint8_t byte);
// The byte that `character` stands for, or -1.
int ByteOfCharacter(char32_t character);
// Appends the bytes that `token` (valid UTF-8) spells. False, with nothing appended, when one of its
// characters stands for no byte.
bool AppendSpelledBytes(std::string_view token, std::string& bytes);

}  // namespace ropelab::formats
