// A set of Unicode code points as sorted ranges.
#pragma once

#include <string>
#include <vector>

namespace ropelab::formats {

constexpr char32_t kLastCodePoint = 0x10FFFF;

struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;  // inclusive
  bool operator==(const CodePointRange&) const = default;
};

class CodePointSet {
 public:
  CodePointSet() = default;
  // Ranges in any order, overlapping or not; all within U+0000..U+10FFFF and first <= last.
  explicit CodePointSet(std::vector<CodePointRange> ranges);

  // Ascending, disjoint, not adjacent.
  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool Contains(char32_t code_point) const;
  CodePointSet Complement() const;
  bool operator==(const CodePointSet&) const = default;

 private:
  std::vector<CodePointRange> ranges_;
};

}  // namespace ropelab::formats
