// A pre-tokenizer's regular expression (Oniguruma's dialect, as tokenizer.json holds it), matched over the
// reference's character classes instead of those of the machine's libraries.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::formats {

struct TextRange {
  size_t begin = 0;
  size_t end = 0;  // bytes
  bool operator==(const TextRange&) const = default;
};

// Immutable; safe to share between threads.
class SplitPattern {
 public:
  // INVALID_ARGUMENT: quotes the pattern, the place and what is not understood.
  static absl::StatusOr<std::shared_ptr<const SplitPattern>> Compile(std::string_view pattern);
  // A pattern that is a literal text.
  static std::shared_ptr<const SplitPattern> Literal(std::string_view text);
  virtual ~SplitPattern() = default;

  // All matches from left to right, none overlapping, none empty, appended to `matches`. `text` is valid
  // UTF-8. RESOURCE_EXHAUSTED when the matcher gives up (names the byte).
  virtual absl::Status FindAll(std::string_view text, std::vector<TextRange>& matches) const = 0;
};

}  // namespace ropelab::formats
