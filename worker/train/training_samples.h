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
// (step, number) decides what is drawn.
absl::StatusOr<TrainingSample> DrawSample(const SampleText& text, const Recipe& recipe, int64_t tokens,
                                          uint64_t step, uint64_t number);

// A needle in the experiments' words at ⌊depth words⌋, with a code and a text that no training sample has.
absl::StatusOr<TrainingSample> EvaluationSample(const SampleText& text, const Recipe& recipe, int64_t tokens,
                                                double depth, uint64_t number);

}  // namespace ropelab::train
