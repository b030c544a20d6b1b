// Needle samples as one tokenizer realises them: text, token ids, and where needle, code and question stand.
// EXPERIMENTS.md section 6; docs/experiments/needles.md says the text to the last character.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ropelab/v1/reading.pb.h"
#include "worker/measure/measurement.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {

struct RealisedNeedle {
  v1::RealisedNeedle facts;  // spans come from character offsets; `fits` false: the rest is empty
  TokenIds ids;              // of the prompt, BOS included where the request has one
  std::string text;          // of the prompt, without BOS
};

// The samples of a block, in order. Haystack words are trimmed away, furthest from the needle first, until
// the prompt has at most the sample's context length of tokens; needle and question are never cut.
// INVALID_ARGUMENT names the sample: a request that is not as the contract says, a corpus whose sentences end
// before the haystack is long enough, a span that no token covers, a needle that the tokenizer cannot carry.
// CANCELLED and FAILED_PRECONDITION: those of Texts.
absl::StatusOr<std::vector<RealisedNeedle>> RealiseNeedles(const v1::NeedlePrompts& request,
                                                           const v1::SampleBlock& samples,
                                                           const Resources& resources);

// The ids alone, for measurements that know no needle. INVALID_ARGUMENT also for a sample that does not fit.
absl::StatusOr<std::vector<TokenIds>> NeedlePromptIds(const v1::NeedlePrompts& request,
                                                      const v1::SampleBlock& samples,
                                                      const formats::ModelConfig& config,
                                                      const Resources& resources);

// The prompt followed by a space and the code, for teacher forcing: the ids, and which of them are the
// answer's. The prompt's own ids stay as they are; the answer is tokenized by itself.
struct ForcedAnswer {
  TokenIds ids;
  int64_t first = 0;  // of the answer's tokens; they go to the end
  // The needle's tokens that spell the same: one for each answer token, or -1 where the needle has no such
  // one.
  std::vector<int64_t> occurrences;
};
absl::StatusOr<ForcedAnswer> ForceAnswer(const RealisedNeedle& needle, const formats::Tokenizer& tokenizer);

}  // namespace ropelab::measure
