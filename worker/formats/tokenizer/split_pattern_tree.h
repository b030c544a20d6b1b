// A split pattern as a tree over sets of code points: what is left of Oniguruma's syntax after parsing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/formats/tokenizer/unicode_set.h"

namespace ropelab::formats {

constexpr uint32_t kNoUpperBound = UINT32_MAX;

struct PatternNode {
  enum class Kind {
    kSet,        // one code point of sets[set]
    kSequence,   // children one after the other; none: the empty text
    kChoice,     // the first child that leads to a match
    kRepeat,     // children[0], least to most times
    kLookahead,  // children[0] matches here, nothing is consumed
    kNotAhead,   // children[0] does not match here
    kTextBegin,  // the text's begin
    kTextEnd,    // the text's end
  };
  enum class Greed { kGreedy, kLazy, kPossessive };

  Kind kind = Kind::kSequence;
  size_t set = 0;
  uint32_t least = 0, most = 0;  // kNoUpperBound: any number
  Greed greed = Greed::kGreedy;
  std::vector<PatternNode> children;
};

struct PatternTree {
  PatternNode root;
  std::vector<CodePointSet> sets;  // all different
};

// The least number of code points that a match of `node` reads; of a repeat only whether it is zero.
size_t LeastLength(const PatternNode& node);
// The most; SIZE_MAX for any number.
size_t MostLength(const PatternNode& node);

// Takes the constructs whose meaning is the same in Oniguruma and PCRE2, or can be written so that it is.
// INVALID_ARGUMENT: quotes the pattern, the byte and what is not understood there.
absl::StatusOr<PatternTree> ParseSplitPattern(std::string_view pattern);

}  // namespace ropelab::formats
