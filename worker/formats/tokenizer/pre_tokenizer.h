// What cuts a text into the pieces that byte-pair merging works on.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/formats/tokenizer/normalized_text.h"
#include "worker/formats/tokenizer/split_pattern.h"

namespace ropelab::formats {

// A text and the pieces of it so far; bytes in none of them are gone.
struct CutText {
  NormalizedText text;
  std::vector<TextRange> pieces;  // in order, none empty
  size_t base = 0;                // where the origins count from in the whole text
};

class PreTokenizer {
 public:
  // Reads "pre_tokenizer": null, Sequence, Split, ByteLevel, Metaspace, Digits. INVALID_ARGUMENT names what
  // is not built.
  static absl::StatusOr<PreTokenizer> Read(const nlohmann::json* json);

  // RESOURCE_EXHAUSTED when a pattern gives up.
  absl::Status Apply(CutText& cut) const;

  // True when the pieces are raw bytes that the vocabulary spells in the byte alphabet: ByteLevel comes last,
  // and spelling the bytes out can be left away.
  bool bytes() const { return bytes_; }

  class Step {
   public:
    virtual ~Step() = default;
    virtual absl::Status Apply(CutText& cut) const = 0;
    virtual bool spells_bytes() const { return false; }
  };

 private:
  std::vector<std::shared_ptr<const Step>> steps_;
  bool bytes_ = false;
};

}  // namespace ropelab::formats
