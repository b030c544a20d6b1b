// The pieces that merging starts from: one symbol a character (or a byte), before any merge.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/formats/tokenizer/bpe_model.h"

namespace ropelab::formats {

// Token `id` for bytes [begin, end) of a piece.
struct Symbol {
  int32_t id = -1;
  uint32_t begin = 0;
  uint32_t end = 0;
};

class SymbolTable {
 public:
  // With `bytes`, a piece is raw bytes and the vocabulary spells them in the byte alphabet; else it is UTF-8
  // and the vocabulary holds its characters. `model` must outlive the table.
  SymbolTable(const BpeModel& model, bool bytes);

  // The token of the character or byte at `at`, -1 where there is none; `length` is its bytes.
  int32_t Find(std::string_view piece, size_t at, uint32_t& length) const;

  // Calls emit(Symbol) in order over `piece`. Characters without a token become their bytes' tokens, the
  // unknown token, or, where the model names none, nothing. NOT_FOUND when the unknown token is needed and is
  // not in the vocabulary.
  template <typename Emit>
  absl::Status ForEach(std::string_view piece, Emit&& emit) const {
    Symbol unknown;  // unknown characters that are still to be emitted; id -1: none
    for (uint32_t at = 0; at < piece.size();) {
      uint32_t length = 0;
      const int32_t id = Find(piece, at, length);
      if (id >= 0) {
        if (unknown.id >= 0) emit(std::exchange(unknown, {}));
        emit(Symbol{id, at, at + length});
      } else if (model_.byte_fallback && BytesHaveTokens(piece, at, length)) {
        // The reference leaves unknown characters before these bytes waiting, to come after them.
        EmitBytes(piece, at, length, emit);
      } else if (model_.has_unknown) {
        if (model_.unknown < 0) return MissingUnknown();
        if (unknown.id >= 0 && !model_.fuse_unknown) emit(std::exchange(unknown, {}));
        if (unknown.id < 0) unknown = {model_.unknown, at, at};
        unknown.end = at + length;
      }
      at += length;
    }
    if (unknown.id >= 0) emit(unknown);
    return absl::OkStatus();
  }

 private:
  // What the byte tokens of the unit at `at` would stand for: its spelling's bytes.
  std::string_view Spelling(std::string_view piece, size_t at, uint32_t length) const;
  bool BytesHaveTokens(std::string_view piece, size_t at, uint32_t length) const;
  template <typename Emit>
  void EmitBytes(std::string_view piece, uint32_t at, uint32_t length, Emit& emit) const {
    const std::string_view spelling = Spelling(piece, at, length);
    for (uint32_t k = 0; k < spelling.size(); ++k) {
      const uint32_t begin = std::min(at + k, at + length - 1);
      emit(Symbol{model_.byte_tokens[static_cast<unsigned char>(spelling[k])], begin, begin + 1});
    }
  }
  absl::Status MissingUnknown() const;

  const BpeModel& model_;
  const bool bytes_;
  std::vector<int32_t> low_;  // by byte, or by character below kLow
};

}  // namespace ropelab::formats
