// The forced answer to a needle prompt, and where the needle says the same.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/measure/needle_prompts.h"

namespace ropelab::measure {
namespace {

// Of a token, relative to the code: characters before it are negative.
struct Place {
  int64_t begin, end;
};

Place Relative(const formats::TokenSpan& span, size_t code_begin) {
  const auto origin = static_cast<int64_t>(code_begin);
  return {static_cast<int64_t>(span.begin) - origin, static_cast<int64_t>(span.end) - origin};
}

// What of the code a token covers; empty where it covers none.
Place WithinCode(const Place& place, int64_t code_length) {
  return {std::clamp<int64_t>(place.begin, 0, code_length), std::clamp<int64_t>(place.end, 0, code_length)};
}

bool SameCharacters(const Place& a, const Place& b, int64_t code_length) {
  const Place in_a = WithinCode(a, code_length), in_b = WithinCode(b, code_length);
  return in_a.begin < in_a.end && in_a.begin == in_b.begin && in_a.end == in_b.end;
}

// Tokenizers differ in what the span of a space is that they put ahead of a text themselves; wherever it is a
// token of its own, it is the answer's first, and its like ends where the needle's code begins.
bool IsSpaceAhead(size_t answer_token, const Place& needle_token) {
  return answer_token == 0 && needle_token.end == 0;
}

struct AnswerText {
  std::string text;
  size_t code_begin;
};

// What has to be tokenized for ids that read " CODE" behind other text. A tokenizer that puts a space ahead
// of every text by itself would make two of them of " CODE".
absl::StatusOr<AnswerText> AnswerTextOf(const std::string& code, const formats::Tokenizer& tokenizer) {
  ROPELAB_ASSIGN_OR_RETURN(const formats::Encoding before, tokenizer.Encode(":", /*add_special=*/false));
  ROPELAB_ASSIGN_OR_RETURN(const formats::Encoding bare, tokenizer.Encode(code, /*add_special=*/false));
  TokenIds together = before.ids;
  together.insert(together.end(), bare.ids.begin(), bare.ids.end());
  ROPELAB_ASSIGN_OR_RETURN(const std::string read, tokenizer.Decode(together, /*skip_special=*/false));
  const bool spaced = absl::StrContains(read, absl::StrCat(" ", code));
  return spaced ? AnswerText{code, 0} : AnswerText{absl::StrCat(" ", code), 1};
}

}  // namespace

absl::StatusOr<ForcedAnswer> ForceAnswer(const RealisedNeedle& needle, const formats::Tokenizer& tokenizer) {
  const std::string& code = needle.facts.code_text();
  ROPELAB_ASSIGN_OR_RETURN(const AnswerText said, AnswerTextOf(code, tokenizer));
  ROPELAB_ASSIGN_OR_RETURN(const formats::Encoding answer,
                           tokenizer.Encode(said.text, /*add_special=*/false));
  if (answer.ids.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer makes no ids of the answer \" ", code, "\""));
  }
  ForcedAnswer forced;
  forced.ids = needle.ids;
  forced.first = static_cast<int64_t>(needle.ids.size());
  forced.ids.insert(forced.ids.end(), answer.ids.begin(), answer.ids.end());
  const auto length = static_cast<int64_t>(code.size());
  for (size_t a = 0; a < answer.ids.size(); ++a) {
    const Place place = Relative(answer.spans[a], said.code_begin);
    int64_t occurrence = -1;
    for (int64_t i = needle.facts.needle().first(); i <= needle.facts.needle().last(); ++i) {
      const auto token = static_cast<size_t>(i);
      const Place there = Relative(needle.spans[token], needle.code_begin);
      if (needle.ids[token] == answer.ids[a] &&
          (SameCharacters(place, there, length) || IsSpaceAhead(a, there))) {
        occurrence = i;
        break;
      }
    }
    forced.occurrences.push_back(occurrence);
  }
  return forced;
}

}  // namespace ropelab::measure
