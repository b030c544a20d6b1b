#include "worker/formats/tokenizer/split_pattern_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/unicode_classes.h"
#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {
namespace {

constexpr uint32_t kLargestNumber = 100000;
constexpr size_t kQuotedBytes = 400;

bool IsLetter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsDigit(char32_t c) {
  return c >= '0' && c <= '9';
}

// Escapes of one control character whose meaning Oniguruma's syntax shares with C.
std::optional<char32_t> ControlEscape(char c) {
  switch (c) {
    case 't':
      return 0x09;
    case 'n':
      return 0x0A;
    case 'v':
      return 0x0B;
    case 'f':
      return 0x0C;
    case 'r':
      return 0x0D;
    default:
      return std::nullopt;
  }
}

CodePointSet WordItem(bool negated, bool bracketed) {
  const CodePointSet& set = bracketed ? BracketedWordSet() : WordSet();
  return negated ? set.Complement() : set;
}

}  // namespace

bool PatternReader::Take(std::string_view text) {
  if (!pattern_.substr(at_).starts_with(text)) return false;
  at_ += text.size();
  return true;
}

char32_t PatternReader::TakeCodePoint() {
  const char32_t code_point = CharacterAt(pattern_, at_);
  at_ += CharacterBytes(pattern_[at_]);
  return code_point;
}

absl::StatusOr<std::optional<uint32_t>> PatternReader::TakeNumber() {
  const size_t begin = at_;
  uint32_t value = 0;
  for (; IsDigit(static_cast<unsigned char>(Peek())); ++at_) {
    value = value * 10 + static_cast<uint32_t>(Peek() - '0');
    if (value > kLargestNumber) return Refuse(begin, absl::StrCat("a number over ", kLargestNumber));
  }
  return at_ == begin ? std::nullopt : std::optional<uint32_t>(value);
}

absl::StatusOr<char32_t> PatternReader::TakeHex(size_t least_digits, size_t most_digits) {
  const size_t begin = at_;
  char32_t value = 0;
  while (at_ - begin < most_digits && absl::ascii_isxdigit(static_cast<unsigned char>(Peek()))) {
    const char digit = pattern_[at_++];
    value = value * 16 + static_cast<char32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
  }
  if (at_ - begin < least_digits) return Refuse(begin, "a hexadecimal number is expected");
  if (value > kLastCodePoint || (value >= 0xD800 && value <= 0xDFFF)) {
    return Refuse(begin, "no Unicode character has this number");
  }
  return value;
}

absl::StatusOr<CodePointSet> PatternReader::Literal(size_t at, char32_t code_point, bool ignore_case) const {
  if (!ignore_case) return CodePointSet({{code_point, code_point}});
  // Oniguruma folds a character beyond ASCII to others, also to several at once.
  if (code_point > 0x7F) return Refuse(at, "ignoring case is built for ASCII characters only");
  return CaseVariants(static_cast<char>(code_point));
}

absl::StatusOr<CodePointSet> PatternReader::TakeProperty(bool negated, bool ignore_case) {
  const size_t begin = at_;
  if (!Take("{")) return Refuse("a property is written \\p{L}");
  if (Take("^")) negated = !negated;
  const size_t close = pattern_.find('}', at_);
  if (close == std::string_view::npos) return Refuse(begin, "the property has no closing brace");
  const std::optional<CodePointSet> set = GeneralCategorySet(pattern_.substr(at_, close - at_));
  if (!set) return Refuse(begin, "only general categories (L, Lu, M, N, ...) are known as properties");
  if (ignore_case) return Refuse(begin, "a property where case is ignored is not built");
  at_ = close + 1;
  return negated ? set->Complement() : *set;
}

absl::StatusOr<PatternReader::Item> PatternReader::TakeEscapedItem(bool ignore_case, bool bracketed) {
  if (AtEnd()) return Refuse("a backslash ends the pattern");
  const size_t begin = at_;
  const char32_t c = TakeCodePoint();
  switch (c) {
    case 's':
      return Item{SpaceSet(), std::nullopt};
    case 'S':
      return Item{SpaceSet().Complement(), std::nullopt};
    case 'd':
      return Item{DigitSet(), std::nullopt};
    case 'D':
      return Item{DigitSet().Complement(), std::nullopt};
    case 'w':
    case 'W':
      if (ignore_case) return Refuse(begin, "\\w where case is ignored is not built");
      return Item{WordItem(c == 'W', bracketed), std::nullopt};
    case 'p':
    case 'P': {
      ROPELAB_ASSIGN_OR_RETURN(CodePointSet set, TakeProperty(c == 'P', ignore_case));
      return Item{std::move(set), std::nullopt};
    }
    default:
      break;
  }
  std::optional<char32_t> single = c < 0x80 ? ControlEscape(static_cast<char>(c)) : std::nullopt;
  if (c == 'u') {
    ROPELAB_ASSIGN_OR_RETURN(single, TakeHex(4, 4));
  } else if (c == 'x' && Take("{")) {
    ROPELAB_ASSIGN_OR_RETURN(single, TakeHex(1, 8));
    if (!Take("}")) return Refuse("the number's closing brace is expected");
  } else if (c == 'x') {
    ROPELAB_ASSIGN_OR_RETURN(single, TakeHex(2, 2));
    // Oniguruma reads \x80 and above as a raw byte.
    if (*single > 0x7F) return Refuse(begin, "write \\x{80} and above with braces");
  } else if (!single && c < 0x80 && !IsLetter(c) && !IsDigit(c)) {
    single = c;
  }
  if (!single) return Refuse(begin, "this escape is not built");
  if (ignore_case && IsLetter(*single)) return Refuse(begin, "write the letter itself where case is ignored");
  ROPELAB_ASSIGN_OR_RETURN(CodePointSet set, Literal(begin, *single, ignore_case));
  return Item{std::move(set), single};
}

absl::StatusOr<CodePointSet> PatternReader::TakeEscape(bool ignore_case) {
  ROPELAB_ASSIGN_OR_RETURN(Item item, TakeEscapedItem(ignore_case, false));
  return std::move(item.set);
}

absl::StatusOr<PatternReader::Item> PatternReader::TakeItem(bool ignore_case) {
  if (Take("\\")) return TakeEscapedItem(ignore_case, true);
  if (Peek() == '[') return Refuse("a class inside a class is not built; write \\[ for the character");
  if (pattern_.substr(at_).starts_with("&&")) return Refuse("the intersection of classes is not built");
  const size_t begin = at_;
  const char32_t c = TakeCodePoint();
  ROPELAB_ASSIGN_OR_RETURN(CodePointSet set, Literal(begin, c, ignore_case));
  return Item{std::move(set), c};
}

absl::StatusOr<CodePointSet> PatternReader::TakeBrackets(bool ignore_case) {
  const size_t begin = at_;
  const bool negated = Take("^");
  std::vector<CodePointRange> ranges;
  const auto add = [&ranges](const CodePointSet& set) {
    ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
  };
  bool folded = false;  // a letter whose other case came in
  if (Peek() == ']') return Refuse("an empty class; write \\] for the character");
  while (!Take("]")) {
    if (AtEnd()) return Refuse(begin, "the class has no closing bracket");
    const size_t item_begin = at_;
    ROPELAB_ASSIGN_OR_RETURN(const Item item, TakeItem(ignore_case));
    folded = folded || (ignore_case && item.single && IsLetter(*item.single));
    const std::string_view rest = pattern_.substr(at_);
    if (!rest.starts_with('-') || rest.starts_with("-]")) {
      if (item.single == U'-' && pattern_[item_begin] == '-' && item_begin != begin + (negated ? 1 : 0) &&
          !rest.starts_with(']')) {
        return Refuse(item_begin, "a hyphen stands first or last in a class, or between the ends of a range");
      }
      add(item.set);
      continue;
    }
    ++at_;
    ROPELAB_ASSIGN_OR_RETURN(const Item last, TakeItem(ignore_case));
    if (!item.single || !last.single) return Refuse(item_begin, "a range runs from character to character");
    if (*item.single > *last.single) return Refuse(item_begin, "the range runs backwards");
    if (!ignore_case) {
      ranges.push_back({*item.single, *last.single});
      continue;
    }
    folded = true;
    for (char32_t c = *item.single; c <= *last.single; ++c) add(CaseVariants(static_cast<char>(c)));
  }
  if (negated && folded)
    return Refuse(begin, "a negated class of letters where case is ignored is not built");
  const CodePointSet set(std::move(ranges));
  return negated ? set.Complement() : set;
}

absl::Status PatternReader::CheckUtf8() const {
  const size_t bad = FirstNonUtf8(pattern_);
  return bad < pattern_.size() ? Refuse(bad, "no valid UTF-8") : absl::OkStatus();
}

absl::Status PatternReader::Refuse(size_t at, std::string_view what) const {
  const std::string_view quoted = pattern_.substr(0, kQuotedBytes);
  return absl::InvalidArgumentError(
      absl::StrCat("split pattern \"", absl::Utf8SafeCEscape(std::string(quoted)),
                   quoted.size() < pattern_.size() ? "..." : "", "\", byte ", at, ": ", std::string(what)));
}

}  // namespace ropelab::formats
