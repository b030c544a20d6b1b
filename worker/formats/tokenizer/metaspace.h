// SentencePiece's way with spaces: a visible mark for each, and one before the text.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/formats/tokenizer/json_fields.h"

namespace ropelab::formats {

struct Metaspace {
  enum class Prepend {
    kAlways,  // before each piece that does not start with a mark
    kFirst,   // only before the piece at the text's start
    kNever,
  };
  std::string mark;
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // pieces end before each mark
};

// The fields of a pre-tokenizer or decoder of that type, in both spellings: prepend_scheme and split, or
// add_prefix_space alone.
absl::StatusOr<Metaspace> ReadMetaspace(JsonFields& fields);

}  // namespace ropelab::formats
