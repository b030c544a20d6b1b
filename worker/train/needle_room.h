// Whether needles fit the prompts that a recipe asks for, found out before anything is trained.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/train/recipe.h"
#include "worker/train/sample_text.h"

namespace ropelab::train {

// Tokens of the shortest prompt that a step (StepLength, and the token that is only told) or an evaluation
// takes where the curriculum begins with prompts of `first_length` tokens.
int64_t ShortestSample(int64_t first_length);

// Tokens of the longest sample without any text around its needle: the begin token, a needle in the
// experiments' words, its question and its answer. Needles in other words are left out where they do not fit.
absl::StatusOr<int64_t> LargestNeedle(const SampleText& text);

// INVALID_ARGUMENT: the largest needle has no room in the shortest prompt; names curriculum.lengths, both
// numbers and the first length that has room.
absl::Status CheckNeedlesFit(const SampleText& text, const Recipe& recipe);

}  // namespace ropelab::train
