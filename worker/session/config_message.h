// A resolved config as the server learns it.
#pragma once

#include <cstdint>
#include <vector>

#include "ropelab/v1/model.pb.h"
#include "worker/formats/model_config.h"
#include "worker/formats/tokenizer/tokenizer.h"

namespace ropelab::session {

// What an announcement needs of a tokenizer: small enough to keep when the tokenizer itself is not.
struct TokenizerFacts {
  int64_t vocabulary = 0;
  std::vector<int32_t> special_ids;
  std::vector<int32_t> prefix_ids;
};
TokenizerFacts FactsOf(const formats::Tokenizer& tokenizer);

// `parameters` from the shapes that the family's layers have. Without a tokenizer (null) every embedding row
// is a token and the config's own BOS and EOS are the special ids. With one, tokens are the rows that it has
// ids for, its special ids join the config's, and a template that puts exactly one id first says what BOS is,
// whatever config.json says.
v1::ModelConfig ToMessage(const formats::ModelConfig& config, const TokenizerFacts* tokenizer = nullptr);

// Elements of all weights, an embedding that is tied counted once. Biases and norms as the config has them.
int64_t CountParameters(const formats::ModelConfig& config);

v1::Dtype::Value ToMessage(formats::Dtype dtype);

}  // namespace ropelab::session
