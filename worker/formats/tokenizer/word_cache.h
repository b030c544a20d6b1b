// The tokens of words seen lately.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "worker/formats/tokenizer/symbols.h"

namespace ropelab::formats {

// A table of fixed size in which a word has one place; a newer word takes it. Words that are long or have
// many tokens are not kept. Not for several threads at once.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 40;
  static constexpr size_t kMaxTokens = 12;

  struct Word {
    uint64_t hash = 0;
    uint8_t bytes = 0;  // 0: a free place
    uint8_t tokens = 0;
    char text[kMaxBytes];
    uint8_t ends[kMaxTokens];  // each token's last byte + 1, from the word's start
    int32_t ids[kMaxTokens];
  };

  WordCache() : words_(std::make_unique<Word[]>(kPlaces)) {}

  static bool Fits(std::string_view word) { return word.size() <= kMaxBytes && !word.empty(); }
  static uint64_t Hash(std::string_view word);
  // nullptr when it is not here. `word` must fit.
  const Word* Find(std::string_view word, uint64_t hash) const;
  // Symbols' places are counted from `begin`, the word's start. Does nothing where there are too many
  // or where they leave a gap.
  void Store(std::string_view word, uint64_t hash, const std::vector<Symbol>& symbols, uint32_t begin);

 private:
  static constexpr size_t kPlaces = size_t{1} << 15;  // 4 MiB
  std::unique_ptr<Word[]> words_;
};

}  // namespace ropelab::formats
