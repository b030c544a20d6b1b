#include "worker/formats/tokenizer/split_pattern.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/tokenizer/class_alphabet.h"
#include "worker/formats/tokenizer/split_pattern_matcher.h"
#include "worker/formats/tokenizer/split_pattern_reader.h"
#include "worker/formats/tokenizer/split_pattern_tree.h"
#include "worker/formats/tokenizer/split_pattern_write.h"
#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {
namespace {

// Counts code points forward to find the bytes of ascending places in a text.
class ByteCursor {
 public:
  ByteCursor(std::string_view text, bool one_byte_each) : text_(text), one_byte_each_(one_byte_each) {}

  size_t ByteOf(size_t code_points) {
    if (one_byte_each_) return code_points;
    for (; code_points_ < code_points; ++code_points_) {
      byte_ += CharacterBytes(text_[byte_]);
    }
    return byte_;
  }

 private:
  const std::string_view text_;
  const bool one_byte_each_;
  size_t code_points_ = 0;
  size_t byte_ = 0;
};

class ClassPattern final : public SplitPattern {
 public:
  ClassPattern(ClassAlphabet alphabet, SymbolMatcher matcher)
      : alphabet_(std::move(alphabet)), matcher_(std::move(matcher)) {}

  absl::Status FindAll(std::string_view text, std::vector<TextRange>& matches) const override {
    SymbolScratch& scratch = SymbolScratch::OfThisThread();
    uint8_t* const symbols = scratch.Symbols(text.size());
    const size_t length = alphabet_.Map(text, symbols);
    ByteCursor cursor(text, length == text.size());
    size_t at = 0;
    while (true) {
      size_t begin = 0, end = 0;
      const SymbolMatcher::Outcome outcome = matcher_.Find({symbols, length}, at, scratch, begin, end);
      if (outcome == SymbolMatcher::Outcome::kNone) return absl::OkStatus();
      if (outcome == SymbolMatcher::Outcome::kGaveUp) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the split pattern takes too many steps on the text after byte ", cursor.ByteOf(at),
                         "; break the text there, or use a simpler pattern in the tokenizer"));
      }
      const size_t begin_byte = cursor.ByteOf(begin);
      matches.push_back({begin_byte, cursor.ByteOf(end)});
      at = end;
    }
  }

 private:
  const ClassAlphabet alphabet_;
  const SymbolMatcher matcher_;
};

class LiteralPattern final : public SplitPattern {
 public:
  explicit LiteralPattern(std::string_view text) : literal_(text) {}

  absl::Status FindAll(std::string_view text, std::vector<TextRange>& matches) const override {
    if (literal_.empty()) return absl::OkStatus();
    for (size_t at = text.find(literal_); at != std::string_view::npos;
         at = text.find(literal_, at + literal_.size())) {
      matches.push_back({at, at + literal_.size()});
    }
    return absl::OkStatus();
  }

 private:
  const std::string literal_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const SplitPattern>> SplitPattern::Compile(std::string_view pattern) {
  ROPELAB_ASSIGN_OR_RETURN(const PatternTree tree, ParseSplitPattern(pattern));
  std::optional<ClassAlphabet> alphabet = ClassAlphabet::Make(tree.sets);
  const PatternReader reader(pattern);
  if (!alphabet) return reader.Refuse(0, "the pattern tells more than 250 kinds of characters apart");
  absl::StatusOr<SymbolMatcher> matcher = SymbolMatcher::Make(WriteSymbolPattern(tree, *alphabet));
  if (!matcher.ok()) return reader.Refuse(0, std::string(matcher.status().message()));
  return std::make_shared<ClassPattern>(*std::move(alphabet), *std::move(matcher));
}

std::shared_ptr<const SplitPattern> SplitPattern::Literal(std::string_view text) {
  return std::make_shared<LiteralPattern>(text);
}

}  // namespace ropelab::formats
