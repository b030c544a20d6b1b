#include "worker/formats/tokenizer/unicode_classes.h"

#include <array>
#include <cstdint>
#include <iterator>
#include <vector>

namespace ropelab::formats {
namespace {

constexpr uint32_t kTable[] = {
#include "worker/formats/tokenizer/unicode_classes_table.inc"
};

// The order of the table's categories.
constexpr std::array<std::string_view, 30> kCategories = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
constexpr uint32_t kWordBit = 0x80;

// The code points whose table value (category and word bit) passes.
template <typename Passes>
CodePointSet Select(const Passes& passes) {
  std::vector<CodePointRange> ranges;
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (!passes(kTable[i] & 0xFF)) continue;
    const char32_t end = i + 1 < std::size(kTable) ? kTable[i + 1] >> 8 : kLastCodePoint + 1;
    ranges.push_back({static_cast<char32_t>(kTable[i] >> 8), end - 1});
  }
  return CodePointSet(std::move(ranges));
}

CodePointSet MakeSpaces() {
  // Oniguruma's \s: every separator, and the ASCII and C1 controls that move the cursor.
  std::vector<CodePointRange> ranges = GeneralCategorySet("Z")->ranges();
  ranges.push_back({0x09, 0x0D});
  ranges.push_back({0x85, 0x85});
  return CodePointSet(std::move(ranges));
}

}  // namespace

std::optional<CodePointSet> GeneralCategorySet(std::string_view name) {
  std::array<bool, kCategories.size()> wanted{};
  bool known = false;
  for (size_t i = 0; i < kCategories.size(); ++i) {
    wanted[i] = kCategories[i] == name || (name.size() == 1 && kCategories[i].front() == name.front());
    known = known || wanted[i];
  }
  if (!known) return std::nullopt;
  return Select([&](uint32_t value) { return wanted[value & ~kWordBit]; });
}

const CodePointSet& SpaceSet() {
  static const CodePointSet* const set = new CodePointSet(MakeSpaces());
  return *set;
}

const CodePointSet& DigitSet() {
  static const CodePointSet* const set = new CodePointSet(*GeneralCategorySet("Nd"));
  return *set;
}

const CodePointSet& WordSet() {
  static const CodePointSet* const set =
      new CodePointSet(Select([](uint32_t value) { return (value & kWordBit) != 0; }));
  return *set;
}

const CodePointSet& BracketedWordSet() {
  // The six are the only characters of their category in \w.
  static const CodePointSet* const set = new CodePointSet(Select(
      [](uint32_t value) { return (value & kWordBit) != 0 && kCategories[value & ~kWordBit] != "No"; }));
  return *set;
}

CodePointSet CaseVariants(char ascii) {
  const char32_t character = static_cast<unsigned char>(ascii);
  const char32_t lower = character | 0x20;
  if (lower < 'a' || lower > 'z') return CodePointSet({{character, character}});
  std::vector<CodePointRange> ranges = {{lower, lower}, {lower - 0x20, lower - 0x20}};
  if (lower == 'k') ranges.push_back({0x212A, 0x212A});  // Kelvin sign
  if (lower == 's') ranges.push_back({0x017F, 0x017F});  // long s
  return CodePointSet(std::move(ranges));
}

}  // namespace ropelab::formats
