#include "worker/formats/tokenizer/class_alphabet.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {
namespace {

constexpr size_t kMostSymbols = 250;
constexpr size_t kCodePoints = kLastCodePoint + 1;

struct Change {
  char32_t at;
  size_t set;
};

}  // namespace

std::optional<ClassAlphabet> ClassAlphabet::Make(const std::vector<CodePointSet>& sets) {
  std::vector<Change> changes;
  for (size_t set = 0; set < sets.size(); ++set) {
    for (const CodePointRange& range : sets[set].ranges()) {
      changes.push_back({range.first, set});
      changes.push_back({range.last + 1, set});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });

  // Between two changes all code points are in the same sets; equal memberships are one symbol.
  ClassAlphabet alphabet;
  std::string membership(sets.size(), '\0');
  std::map<std::string, uint8_t> symbol_of_membership;
  std::vector<uint8_t> symbol_of(kCodePoints);
  size_t next = 0;
  for (size_t begin = 0; begin < kCodePoints;) {
    for (; next < changes.size() && changes[next].at == begin; ++next) membership[changes[next].set] ^= 1;
    const size_t end = next < changes.size() ? std::min<size_t>(changes[next].at, kCodePoints) : kCodePoints;
    const size_t known = symbol_of_membership.size();
    const auto [place, fresh] = symbol_of_membership.emplace(membership, static_cast<uint8_t>(known));
    if (fresh && known == kMostSymbols) return std::nullopt;
    std::fill(symbol_of.begin() + static_cast<std::ptrdiff_t>(begin),
              symbol_of.begin() + static_cast<std::ptrdiff_t>(end), place->second);
    begin = end;
  }
  alphabet.symbols_ = static_cast<int>(symbol_of_membership.size());
  alphabet.symbols_of_.resize(sets.size());
  for (const auto& [members, symbol] : symbol_of_membership) {
    for (size_t set = 0; set < sets.size(); ++set) {
      if (members[set] != 0) alphabet.symbols_of_[set].push_back(symbol);
    }
  }
  for (std::vector<uint8_t>& symbols : alphabet.symbols_of_) std::sort(symbols.begin(), symbols.end());

  std::map<std::string_view, uint16_t> known_blocks;
  for (size_t block = 0; block < alphabet.block_of_.size(); ++block) {
    const std::string_view content(reinterpret_cast<const char*>(symbol_of.data()) + block * 256, 256);
    const auto [place, fresh] = known_blocks.emplace(content, static_cast<uint16_t>(known_blocks.size()));
    if (fresh) alphabet.blocks_.insert(alphabet.blocks_.end(), content.begin(), content.end());
    alphabet.block_of_[block] = place->second;
  }
  return alphabet;
}

size_t ClassAlphabet::Map(std::string_view text, uint8_t* symbols) const {
  // U+0000..U+00FF are the first block, so an ASCII byte is its own index.
  constexpr uint64_t kHighBits = 0x8080808080808080;
  const uint8_t* const ascii = blocks_.data();
  uint8_t* out = symbols;
  size_t at = 0;
  while (at < text.size()) {
    for (uint64_t eight; at + 8 <= text.size(); at += 8, out += 8) {
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & kHighBits) != 0) break;
      for (size_t i = 0; i < 8; ++i) out[i] = ascii[static_cast<unsigned char>(text[at + i])];
    }
    // Up to eight characters before the next look for a run of ASCII.
    for (size_t i = 0; i < 8 && at < text.size(); ++i) {
      *out++ = SymbolOf(CharacterAt(text, at));
      at += CharacterBytes(text[at]);
    }
  }
  return static_cast<size_t>(out - symbols);
}

}  // namespace ropelab::formats
