// Small tokenizers in the layouts of the families, for the fuzz target of a tokenizer's input.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/formats/tokenizer/tokenizer.h"

namespace ropelab::fuzz {

// What decoding the ids of a text must give back.
enum class RoundTrip {
  kText,     // the text
  kSpaces,   // the text with U+2581 as spaces
  kNothing,  // no promise: normalized, or characters without a token
};

struct SmallTokenizer {
  const char* name;
  std::shared_ptr<const formats::Tokenizer> tokenizer;
  RoundTrip round_trip;
  bool ascending;  // the tokens' spans begin in the order of the text
};

// Byte-level with GPT-2's own pattern; byte-level with Llama 3's and a template; SentencePiece's layout with
// bytes for unknown characters; Metaspace with an unknown token; canonical composition with every flag of an
// added token. Ends the process if one of them is refused.
const std::vector<SmallTokenizer>& SmallTokenizers();

}  // namespace ropelab::fuzz
