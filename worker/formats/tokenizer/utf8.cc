#include "worker/formats/tokenizer/utf8.h"

#include <unicode/utf8.h>

#include "common/printable.h"

namespace ropelab::formats {

void AppendCharacter(char32_t character, std::string& text) {
  char bytes[U8_MAX_LENGTH];
  int32_t length = 0;
  U8_APPEND_UNSAFE(bytes, length, character);
  text.append(bytes, static_cast<size_t>(length));
}

std::string LossyUtf8(std::string_view bytes) {
  if (IsUtf8(bytes)) return std::string(bytes);
  std::string text;
  const auto* source = reinterpret_cast<const uint8_t*>(bytes.data());
  const size_t size = bytes.size();
  for (size_t at = 0; at < size;) {
    UChar32 character;
    U8_NEXT_OR_FFFD(source, at, size, character);
    AppendCharacter(static_cast<char32_t>(character), text);
  }
  return text;
}

}  // namespace ropelab::formats
