#include "worker/formats/tokenizer/byte_alphabet.h"

#include <array>

#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {
namespace {

constexpr char32_t kCharacters = 256 + 68;  // one past the last character of the alphabet

struct Alphabet {
  std::array<std::string, 256> character;
  std::array<int16_t, kCharacters> byte;

  Alphabet() {
    byte.fill(-1);
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const char32_t point = printable ? static_cast<char32_t>(b) : next++;
      byte[point] = static_cast<int16_t>(b);
      AppendCharacter(point, character[static_cast<size_t>(b)]);
    }
  }
};

const Alphabet& Table() {
  static const Alphabet table;
  return table;
}

}  // namespace

std::string_view CharacterOfByte(uint8_t byte) {
  return Table().character[byte];
}

int ByteOfCharacter(char32_t character) {
  return character < kCharacters ? Table().byte[character] : -1;
}

bool AppendSpelledBytes(std::string_view token, std::string& bytes) {
  const size_t before = bytes.size();
  for (size_t at = 0; at < token.size(); at += CharacterBytes(token[at])) {
    const int byte = ByteOfCharacter(CharacterAt(token, at));
    if (byte < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += static_cast<char>(byte);
  }
  return true;
}

}  // namespace ropelab::formats
