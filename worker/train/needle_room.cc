#include "worker/train/needle_room.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/train/needle_texts.h"

namespace ropelab::train {

int64_t ShortestSample(int64_t first_length) {
  const int64_t cut = first_length / 4 - 1;  // less than a quarter
  return std::min(std::max(first_length - cut, kShortestPrompt) + 1, first_length);
}

absl::StatusOr<int64_t> LargestNeedle(const SampleText& text) {
  int64_t largest = 0;
  // No token holds letters and digits. So where they take turns each character is a token, and no code with
  // the same first character takes more.
  for (const char first : std::string("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")) {
    const NeedleText needle = PlainNeedle(std::string(1, first) + (first <= '9' ? "A1A1" : "1A1A"));
    ROPELAB_ASSIGN_OR_RETURN(const TokenIds statement, text.Encode(absl::StrCat(" ", needle.statement)));
    ROPELAB_ASSIGN_OR_RETURN(const TokenIds question, text.Encode(needle.question));
    ROPELAB_ASSIGN_OR_RETURN(const TokenIds answer, text.Encode(needle.answer));
    // The begin token before and the end token after them.
    largest =
        std::max(largest, static_cast<int64_t>(1 + statement.size() + question.size() + answer.size() + 1));
  }
  return largest;
}

absl::Status CheckNeedlesFit(const SampleText& text, const Recipe& recipe) {
  ROPELAB_ASSIGN_OR_RETURN(const int64_t needed, LargestNeedle(text));
  const int64_t first = recipe.curriculum.lengths.front();
  if (needed <= ShortestSample(first)) return absl::OkStatus();
  int64_t enough = first;
  while (ShortestSample(enough) < needed) ++enough;
  return absl::InvalidArgumentError(absl::StrCat(
      "curriculum.lengths: prompts of ", first, " tokens, up to a quarter shorter, have room for ",
      ShortestSample(first), " tokens, and a needle with its question takes up to ", needed,
      "; let the lengths begin with ", enough, " or more, or raise vocabulary, ", recipe.vocabulary));
}

}  // namespace ropelab::train
