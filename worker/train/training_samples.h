// Samples to train on and to be judged by, each of exactly the tokens asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/train/recipe.h"
#include "worker/train/sample_text.h"

namespace ropelab::train {

// What a token belongs to. Needles and questions are text too where losses are concerned.
enum class Role : uint8_t { kNone = 0, kText = 1, kNeedle = 2, kQuestion = 3, kAnswer = 4 };

struct TrainingSample {
  TokenIds ids;             // begin token first; end tokens fill what is left over
  std::vector<Role> roles;  // as long; kNone: begin token, noise and filling
};

// A mix of three kinds: text with a random span that stands three times (its second and third time are
// answers, but for the first two tokens), text with one needle in the experiments' words, and text with one
// to four needles in drawn words, of which one or all are asked for. An answer is the code and the end token.
// (step, number) decides what is drawn. Training asks for tokens from kShortestPrompt + 1 on.
// INVALID_ARGUMENT: the needles with their questions take more than `tokens`, which a small vocabulary can
// bring about; the message says how many.
absl::StatusOr<TrainingSample> DrawSample(const SampleText& text, const Recipe& recipe, int64_t tokens,
                                          uint64_t step, uint64_t number);

// A needle in the experiments' words at ⌊depth words⌋, in text without noise. `number` and `tokens` decide
// the code and the words; they come from a stream apart from training's and neutral text of numbers apart,
// but a code that training drew too is not left out (there are 36^5). INVALID_ARGUMENT as for DrawSample.
absl::StatusOr<TrainingSample> EvaluationSample(const SampleText& text, const Recipe& recipe, int64_t tokens,
                                                double depth, uint64_t number);

}  // namespace ropelab::train
