// What becomes of the places where a pattern matches.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/formats/tokenizer/json_fields.h"
#include "worker/formats/tokenizer/split_pattern.h"

namespace ropelab::formats {

// Of "a-b--c" split at "-":
enum class SplitBehavior {
  kRemoved,             // a b c
  kIsolated,            // a - b - - c
  kMergedWithPrevious,  // a- b- - c
  kMergedWithNext,      // a -b - -c
  kContiguous,          // a - b -- c
};

// Reads the field "behavior".
absl::StatusOr<SplitBehavior> ReadSplitBehavior(JsonFields& fields);

// Appends the parts of [0, size) shifted by `offset`, given the matches in it (in order, none empty). With
// `invert` what does not match takes the part of what does.
void SplitAt(const std::vector<TextRange>& matches, size_t size, size_t offset, SplitBehavior behavior,
             bool invert, std::vector<TextRange>& parts);

}  // namespace ropelab::formats
