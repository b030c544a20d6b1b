// tokenizer.json as text, taken apart: the two long parts straight into arrays, the rest as a tree.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace ropelab::formats {

struct TokenizerFile {
  struct Token {
    std::string text;
    int64_t id = 0;
  };
  nlohmann::json rest;  // the root object without model.vocab and model.merges
  bool has_vocab = false;
  bool has_merges = false;
  std::vector<Token> vocab;                                 // in the file's order
  std::vector<std::pair<std::string, std::string>> merges;  // from "a b" and from ["a", "b"]
};

// INVALID_ARGUMENT for what is not JSON, an object with a field twice, nesting deeper than 32, ids that are
// not integers, merges that are not two tokens. One pass, linear.
absl::StatusOr<TokenizerFile> ParseTokenizerFile(std::string_view text);

}  // namespace ropelab::formats
