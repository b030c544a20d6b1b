// The lower half of the pattern parser: characters, escapes and bracketed classes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/formats/tokenizer/unicode_set.h"

namespace ropelab::formats {

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) : pattern_(pattern) {}

  bool AtEnd() const { return at_ == pattern_.size(); }
  size_t at() const { return at_; }
  // The byte here; 0 at the end.
  char Peek() const { return AtEnd() ? '\0' : pattern_[at_]; }
  // Steps over `text` if it stands here.
  bool Take(std::string_view text);
  // The next code point, as a literal. The pattern is valid UTF-8 (CheckUtf8).
  char32_t TakeCodePoint();
  // Decimal digits; nothing if there is none. At most 100000, else INVALID_ARGUMENT.
  absl::StatusOr<std::optional<uint32_t>> TakeNumber();

  // After a backslash outside brackets or inside: a class or one character.
  absl::StatusOr<CodePointSet> TakeEscape(bool ignore_case);
  // After an opening bracket, up to and with the closing one.
  absl::StatusOr<CodePointSet> TakeBrackets(bool ignore_case);
  // The literal code point at byte `at` as a set.
  absl::StatusOr<CodePointSet> Literal(size_t at, char32_t code_point, bool ignore_case) const;

  absl::Status CheckUtf8() const;
  // INVALID_ARGUMENT with the pattern, the byte `at` and what is wrong there.
  absl::Status Refuse(size_t at, std::string_view what) const;
  absl::Status Refuse(std::string_view what) const { return Refuse(at_, what); }

 private:
  struct Item {
    CodePointSet set;
    std::optional<char32_t> single;  // may begin or end a range
  };
  absl::StatusOr<Item> TakeItem(bool ignore_case);
  absl::StatusOr<Item> TakeEscapedItem(bool ignore_case, bool bracketed);
  absl::StatusOr<char32_t> TakeHex(size_t least_digits, size_t most_digits);
  absl::StatusOr<CodePointSet> TakeProperty(bool negated, bool ignore_case);

  std::string_view pattern_;
  size_t at_ = 0;
};

}  // namespace ropelab::formats
