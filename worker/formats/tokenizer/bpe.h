// A piece of text to tokens: what a pre-tokenizer cut out, looked up or merged.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "worker/formats/tokenizer/bpe_model.h"
#include "worker/formats/tokenizer/junctions.h"
#include "worker/formats/tokenizer/merging.h"
#include "worker/formats/tokenizer/symbols.h"
#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/formats/tokenizer/word_cache.h"

namespace ropelab::formats {

// Immutable; several threads may encode, each with a workspace of its own.
class Bpe {
 public:
  struct Workspace {
    Merger merger;
    WordCache cache;
    std::vector<Symbol> word;
  };

  // With `bytes`, pieces are raw bytes that the vocabulary spells in the byte alphabet.
  Bpe(BpeModel model, bool bytes);

  // Appends the tokens of `piece`; spans are bytes of it plus `offset`. NOT_FOUND when an unknown token is
  // needed that the vocabulary lacks. Linear in the piece's length times its logarithm.
  absl::Status Encode(std::string_view piece, size_t offset, Workspace& workspace, Encoding& encoding) const;

  const BpeModel& model() const { return model_; }

 private:
  // The token whose text is all of `piece`, or -1.
  int32_t FindWhole(std::string_view piece) const;
  absl::Status EncodeWord(std::string_view word, size_t offset, Workspace& workspace,
                          Encoding& encoding) const;
  absl::Status EncodeLong(std::string_view piece, size_t offset, Workspace& workspace,
                          Encoding& encoding) const;
  void EncodeSegment(std::string_view piece, size_t offset, Workspace& workspace, Encoding& encoding) const;

  const BpeModel model_;
  const bool bytes_;
  const SymbolTable symbols_;
  const Junctions junctions_;
};

}  // namespace ropelab::formats
