// Needle samples as one tokenizer realises them: text, token ids, and where needle, code and question stand.
// EXPERIMENTS.md section 6; docs/experiments/needles.md says the text to the last character.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ropelab/v1/reading.pb.h"
#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/measure/measurement.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {

struct RealisedNeedle {
  v1::RealisedNeedle facts;  // spans come from character offsets; `fits` false: the rest is empty
  TokenIds ids;              // of the prompt, BOS included where the request has one
  std::string text;          // of the prompt, without BOS
  std::vector<formats::TokenSpan> spans;  // one per id, bytes of the text; BOS is empty at 0
  size_t code_begin = 0;                  // byte of the text
  int64_t least_tokens = 0;               // of what does not fit: needle and question alone, BOS included
};

// The samples of a block, in order. Haystack words are trimmed away, furthest from the needle first, until
// the prompt has at most the sample's context length of tokens; needle and question are never cut. A span is
// every token that covers a character of what it is the span of, so its ends may cover haystack as well.
// INVALID_ARGUMENT names the sample: a request that is not as the contract says, a corpus whose sentences end
// before the haystack is long enough, a span that no token covers, a code that does not come back from its
// ids, and where the resources hold a model an id that its embedding has no row for. CANCELLED and
// FAILED_PRECONDITION: those of Texts, and where a tokenizer or texts are needed and missing.
absl::StatusOr<std::vector<RealisedNeedle>> RealiseNeedles(const v1::NeedlePrompts& request,
                                                           const v1::SampleBlock& samples,
                                                           const Resources& resources);

// INVALID_ARGUMENT names a sample that does not fit, and what would make it fit.
absl::Status CheckFits(const v1::NeedleSample& sample, const RealisedNeedle& needle);

// The ids alone, for measurements that know no needle. INVALID_ARGUMENT also for a sample that does not fit,
// and for one of fewer tokens than half its context length.
absl::StatusOr<std::vector<TokenIds>> NeedlePromptIds(const v1::NeedlePrompts& request,
                                                      const v1::SampleBlock& samples,
                                                      const formats::ModelConfig& config,
                                                      const Resources& resources);

// The prompt followed by a space and the code, for teacher forcing: the ids, and which of them are the
// answer's. The prompt's own ids stay as they are; the answer is tokenized by itself, without the space where
// the tokenizer puts one ahead of a text on its own.
struct ForcedAnswer {
  TokenIds ids;
  int64_t first = 0;  // of the answer's tokens; they go to the end
  // One for each answer token: the prompt's token of the needle span with the same id that covers the same
  // characters of the code (or of the space ahead of it), or -1 where the needle has no such one.
  std::vector<int64_t> occurrences;
};
// `needle` fits. INVALID_ARGUMENT for a tokenizer that makes no ids of the answer.
absl::StatusOr<ForcedAnswer> ForceAnswer(const RealisedNeedle& needle, const formats::Tokenizer& tokenizer);

}  // namespace ropelab::measure
