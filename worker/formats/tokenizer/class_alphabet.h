// The alphabet of a pattern: code points that no set of the pattern tells apart are one symbol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/formats/tokenizer/unicode_set.h"

namespace ropelab::formats {

// Symbols are the numbers 0..symbols()-1. Immutable.
class ClassAlphabet {
 public:
  // Nothing when the sets make more than 250 symbols.
  static std::optional<ClassAlphabet> Make(const std::vector<CodePointSet>& sets);

  int symbols() const { return symbols_; }
  // The symbols whose union is sets[set], ascending.
  const std::vector<uint8_t>& SymbolsOf(size_t set) const { return symbols_of_[set]; }
  uint8_t SymbolOf(char32_t code_point) const {
    return blocks_[block_of_[code_point >> 8] * 256u + (code_point & 0xFF)];
  }
  // One symbol per code point of `text` (valid UTF-8) into `symbols`, which has room for text.size() of them.
  // Returns their number.
  size_t Map(std::string_view text, uint8_t* symbols) const;

 private:
  int symbols_ = 0;
  std::vector<std::vector<uint8_t>> symbols_of_;
  std::array<uint16_t, 0x1100> block_of_{};
  std::vector<uint8_t> blocks_;  // 256 code points each
};

}  // namespace ropelab::formats
