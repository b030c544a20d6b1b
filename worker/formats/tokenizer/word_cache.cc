#include "worker/formats/tokenizer/word_cache.h"

#include <cstring>
#include <functional>

namespace ropelab::formats {
namespace {

// True when each symbol starts where the one before it ends, and all of them make up the word.
bool Tiles(const std::vector<Symbol>& symbols, uint32_t begin, size_t size) {
  uint32_t at = begin;
  for (const Symbol& symbol : symbols) {
    if (symbol.begin != at) return false;
    at = symbol.end;
  }
  return at == begin + size;
}

}  // namespace

uint64_t WordCache::Hash(std::string_view word) {
  return std::hash<std::string_view>()(word);
}

const WordCache::Word* WordCache::Find(std::string_view word, uint64_t hash) const {
  const Word& place = words_[hash % kPlaces];
  const bool here = place.hash == hash && place.bytes == word.size() &&
                    std::memcmp(place.text, word.data(), word.size()) == 0;
  return here ? &place : nullptr;
}

void WordCache::Store(std::string_view word, uint64_t hash, const std::vector<Symbol>& symbols,
                      uint32_t begin) {
  if (symbols.size() > kMaxTokens || !Tiles(symbols, begin, word.size())) return;
  Word& place = words_[hash % kPlaces];
  place.hash = hash;
  place.bytes = static_cast<uint8_t>(word.size());
  place.tokens = static_cast<uint8_t>(symbols.size());
  std::memcpy(place.text, word.data(), word.size());
  for (size_t k = 0; k < symbols.size(); ++k) {
    place.ids[k] = symbols[k].id;
    place.ends[k] = static_cast<uint8_t>(symbols[k].end - begin);
  }
}

}  // namespace ropelab::formats
