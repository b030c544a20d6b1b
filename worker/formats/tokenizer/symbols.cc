#include "worker/formats/tokenizer/symbols.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "worker/formats/tokenizer/byte_alphabet.h"
#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {
namespace {

constexpr char32_t kLow = 0x10000;  // characters below it are looked up by number, the rarer ones by text

}  // namespace

SymbolTable::SymbolTable(const BpeModel& model, bool bytes) : model_(model), bytes_(bytes) {
  low_.assign(bytes ? 256 : kLow, -1);
  for (size_t k = 0; k < low_.size(); ++k) {
    std::string text;
    if (bytes) {
      text = CharacterOfByte(static_cast<uint8_t>(k));
    } else if (k < 0xD800 || k > 0xDFFF) {
      AppendCharacter(static_cast<char32_t>(k), text);
    }
    if (!text.empty()) low_[k] = model.vocabulary.Find(text);
  }
}

int32_t SymbolTable::Find(std::string_view piece, size_t at, uint32_t& length) const {
  if (bytes_) {
    length = 1;
    return low_[static_cast<unsigned char>(piece[at])];
  }
  const char32_t character = CharacterAt(piece, at);
  length = static_cast<uint32_t>(CharacterBytes(piece[at]));
  return character < kLow ? low_[character] : model_.vocabulary.Find(piece.substr(at, length));
}

std::string_view SymbolTable::Spelling(std::string_view piece, size_t at, uint32_t length) const {
  return bytes_ ? CharacterOfByte(static_cast<uint8_t>(piece[at])) : piece.substr(at, length);
}

bool SymbolTable::BytesHaveTokens(std::string_view piece, size_t at, uint32_t length) const {
  return std::ranges::all_of(Spelling(piece, at, length), [&](char byte) {
    return model_.byte_tokens[static_cast<unsigned char>(byte)] >= 0;
  });
}

absl::Status SymbolTable::MissingUnknown() const {
  return absl::NotFoundError(absl::StrCat("model.unk_token: '", Printable(model_.unknown_text, 60),
                                          "' is needed for this text and is not in model.vocab"));
}

}  // namespace ropelab::formats
