// How well a model finds needles while it is trained.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/train/recipe.h"
#include "worker/train/sample_text.h"
#include "worker/train/trainable_model.h"

namespace ropelab::train {

// The depths that samples take in turn (EXPERIMENTS.md section 6).
inline constexpr double kDepths[] = {0.1, 0.25, 0.5, 0.75, 0.9};

// Right answers among samples first..first+count-1 of `tokens` tokens; sample i at kDepths[i mod 5], or all
// at `depth` where it is not negative. Right: the largest logit is the expected token at every token of the
// answer, its end included. Greedy decoding then writes just that answer, so its accuracy is no lower.
absl::StatusOr<int64_t> RightAnswers(const TrainableModel& model, const SampleText& text,
                                     const Recipe& recipe, int64_t tokens, int64_t first, int64_t count,
                                     double depth = -1);

}  // namespace ropelab::train
