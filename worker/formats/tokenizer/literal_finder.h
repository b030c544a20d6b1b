// Finds many literal texts at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace ropelab::formats {

// An Aho-Corasick automaton. Of all occurrences the one that starts first is found, of those the longest.
class LiteralFinder {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    size_t which = 0;  // index of the literal; the first of equal ones
  };

  explicit LiteralFinder(const std::vector<std::string>& literals);  // none empty

  // The first match at or after `from`.
  std::optional<Match> Find(std::string_view text, size_t from) const;
  bool empty() const { return states_.size() == 1; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct State {
    uint32_t depth = 0;
    uint32_t fallback = 0;     // the longest proper suffix that is a state
    uint32_t literal = kNone;  // the literal that ends here
    uint32_t nearest = kNone;  // this state or the nearest on the way of fallbacks that ends a literal
  };
  uint32_t Step(uint32_t state, char byte) const;  // kNone: no such edge
  void AddLiteral(const std::string& text, uint32_t literal);
  void LinkFallbacks();

  std::vector<State> states_;
  std::array<uint32_t, 256> from_root_;
  absl::flat_hash_map<uint64_t, uint32_t> edges_;  // (state, byte), but for the root's
};

}  // namespace ropelab::formats
