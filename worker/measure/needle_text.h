// From a needle sample to its code, its needle and the words of its haystack: no tokenizer decides anything
// here. docs/experiments/needles.md says the text to the last character, docs/random-numbers.md the draws.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/measure/texts.h"

namespace ropelab::measure {

// INVALID_ARGUMENT unless a block's needles are as the contract in measurement.proto says.
absl::Status CheckNeedles(const v1::NeedlePrompts& request, const v1::SampleBlock& samples);

struct NeedleText {
  std::string code;
  std::string needle;              // with the code in it
  size_t code_begin = 0;           // byte of the needle at which the code begins
  std::vector<std::string> words;  // of the whole haystack, at most 4 characters a token of context
};

// The samples of one request, which passed CheckNeedles; it outlives this. Documents of the haystack's corpus
// are read once. `texts` may be null where no corpus is named.
class NeedleTexts {
 public:
  NeedleTexts(const v1::NeedlePrompts& request, Texts* texts) : request_(request), texts_(texts) {}

  // INVALID_ARGUMENT for a corpus whose sentences end before the haystack is long enough; says how much there
  // was. Else the errors of DocumentText.
  absl::StatusOr<NeedleText> Make(const v1::NeedleSample& sample);

 private:
  absl::StatusOr<const std::vector<std::string>*> SentencesOfDocument(int64_t document);

  const v1::NeedlePrompts& request_;
  Texts* const texts_;
  std::map<int64_t, std::vector<std::string>> sentences_;  // by document
};

// A prompt with so many of the haystack's words kept, those nearest to the needle: floor(depth * kept) before
// it and the rest behind it. Words and needle are joined by one space; the question follows as it stands.
struct NeedlePromptText {
  std::string text;
  size_t needle_begin = 0, needle_end = 0, code_begin = 0, code_end = 0, question_begin = 0;  // bytes
  int64_t words = 0, words_before = 0;
};
NeedlePromptText PromptTextOf(const NeedleText& needle, double depth, int64_t kept,
                              const std::string& question);

}  // namespace ropelab::measure
