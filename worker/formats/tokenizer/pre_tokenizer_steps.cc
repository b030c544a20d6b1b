#include "worker/formats/tokenizer/pre_tokenizer_steps.h"

#include "common/status_macros.h"
#include "worker/formats/tokenizer/byte_alphabet.h"
#include "worker/formats/tokenizer/text_rewriter.h"
#include "worker/formats/tokenizer/utf8.h"

namespace ropelab::formats {

absl::Status SplitStep::Apply(CutText& cut) const {
  std::vector<TextRange> parts, matches;
  const std::string_view text = cut.text.text;
  for (const TextRange& piece : cut.pieces) {
    matches.clear();
    const size_t size = piece.end - piece.begin;
    ROPELAB_RETURN_IF_ERROR(pattern_->FindAll(text.substr(piece.begin, size), matches));
    SplitAt(matches, size, piece.begin, behavior_, invert_, parts);
  }
  cut.pieces = std::move(parts);
  return absl::OkStatus();
}

absl::Status PrefixStep::Apply(CutText& cut) const {
  TextRewriter rewriter(cut.text);
  const std::string_view text = cut.text.text;
  for (TextRange& piece : cut.pieces) {
    const size_t begin = rewriter.size();
    const NormalizedText::Origin first =
        OriginOf(cut.text, piece.begin, piece.begin + CharacterBytes(text[piece.begin]));
    const bool replaced = !replacement_.empty() && text[piece.begin] == ' ';
    const bool has_prefix =
        replaced ? replacement_.starts_with(prefix_) : text.substr(piece.begin).starts_with(prefix_);
    const bool wanted = !first_only_ || cut.base + first.begin == 0;
    if (wanted && !has_prefix) rewriter.Put(prefix_, first);
    const std::string_view whole = text.substr(0, piece.end);  // spaces of later pieces are theirs to find
    size_t done = piece.begin;
    while (!replacement_.empty()) {
      const size_t space = whole.find(' ', done);
      if (space == std::string_view::npos) break;
      rewriter.Keep(done, space);
      rewriter.Put(replacement_, OriginOf(cut.text, space, space + 1));
      done = space + 1;
    }
    rewriter.Keep(done, piece.end);
    piece = {begin, rewriter.size()};
  }
  cut.text = rewriter.Take();
  return absl::OkStatus();
}

absl::Status SpellStep::Apply(CutText& cut) const {
  TextRewriter rewriter(cut.text);
  for (TextRange& piece : cut.pieces) {
    const size_t begin = rewriter.size();
    for (size_t at = piece.begin; at < piece.end; ++at) {
      rewriter.Put(CharacterOfByte(static_cast<uint8_t>(cut.text.text[at])), OriginOf(cut.text, at, at + 1));
    }
    piece = {begin, rewriter.size()};
  }
  cut.text = rewriter.Take();
  return absl::OkStatus();
}

}  // namespace ropelab::formats
