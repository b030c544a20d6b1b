// Where a text may be cut before merging without changing the tokens.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "worker/formats/tokenizer/bpe_model.h"

namespace ropelab::formats {

// The first merge across a boundary joins a token that ends with the symbol before it and one that starts
// with the symbol after it. Where no merge does so for these two symbols, nothing ever crosses the boundary,
// and both sides can be merged apart: a text without a pre-tokenizer falls into words again.
class Junctions {
 public:
  explicit Junctions(const BpeModel& model);
  bool MayCross(int32_t left_symbol, int32_t right_symbol) const {
    return everywhere_ || pairs_.contains(BpeModel::PairKey(left_symbol, right_symbol));
  }

 private:
  bool everywhere_ = false;  // merges name tokens that are no text of their own: nothing is cut
  absl::flat_hash_set<uint64_t> pairs_;
};

}  // namespace ropelab::formats
