// The forced answer to a needle prompt, and where the needle says the same.
#include <algorithm>
#include <utility>

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

// Tokenizers differ in whether a span holds the space ahead of a word, so the code's own characters decide
// wherever a token has any.
bool SameCharacters(const Place& a, const Place& b, int64_t code_length) {
  const Place in_a = WithinCode(a, code_length), in_b = WithinCode(b, code_length);
  if (in_a.begin < in_a.end) return in_a.begin == in_b.begin && in_a.end == in_b.end;
  return a.begin == b.begin && a.end == b.end;
}

}  // namespace

absl::StatusOr<ForcedAnswer> ForceAnswer(const RealisedNeedle& needle, const formats::Tokenizer& tokenizer) {
  const std::string& code = needle.facts.code_text();
  ROPELAB_ASSIGN_OR_RETURN(const formats::Encoding answer,
                           tokenizer.Encode(absl::StrCat(" ", code), /*add_special=*/false));
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
    const Place said = Relative(answer.spans[a], 1);  // behind the space
    int64_t occurrence = -1;
    for (int64_t i = needle.facts.needle().first(); i <= needle.facts.needle().last(); ++i) {
      const auto token = static_cast<size_t>(i);
      if (needle.ids[token] == answer.ids[a] &&
          SameCharacters(said, Relative(needle.spans[token], needle.code_begin), length)) {
        occurrence = i;
        break;
      }
    }
    forced.occurrences.push_back(occurrence);
  }
  return forced;
}

}  // namespace ropelab::measure
