// The tokens that are found in a text before anything else happens to it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/formats/tokenizer/literal_finder.h"
#include "worker/formats/tokenizer/normalizer.h"
#include "worker/formats/tokenizer/vocabulary.h"

namespace ropelab::formats {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;      // left out of decoded text on request
  bool single_word = false;  // only where no letter, digit or underscore touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = false;   // normalized itself, and found in the normalized text
};

// A stretch of a text: an added token, or text between them.
struct AddedPiece {
  size_t begin = 0;
  size_t end = 0;
  int32_t id = -1;  // -1: text
};

class AddedTokens {
 public:
  // Reads "added_tokens". An id must be what the reference gives the token: its own in the vocabulary, else
  // the next one after the vocabulary and the added tokens so far. INVALID_ARGUMENT names the token.
  static absl::StatusOr<AddedTokens> Read(const nlohmann::json* tokens, const Vocabulary& vocabulary,
                                          const Normalizer& normalizer);

  // Pieces that cover `text` in order, none of them empty text. Leftmost, longest. Two tokens of which one
  // takes white space that the other one consists of may overlap, as in the reference.
  std::vector<AddedPiece> SplitOriginal(std::string_view text) const;    // those not normalized
  std::vector<AddedPiece> SplitNormalized(std::string_view text) const;  // the others

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  struct Set {
    std::vector<size_t> tokens;  // indices
    LiteralFinder finder{std::vector<std::string>()};
  };
  std::vector<AddedPiece> Split(const Set& set, std::string_view text) const;

  std::vector<AddedToken> tokens_;
  Set original_, normalized_;
};

}  // namespace ropelab::formats
