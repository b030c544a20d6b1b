// What a step draws besides its samples, and how hard it presses: functions of the recipe and the number of
// the step (steps taken before it) alone.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "worker/train/recipe.h"

namespace ropelab::train {

// Tokens of the step's prompts. `stage`: present place in curriculum.lengths. From the second stage on three
// steps of ten take one of the lengths before, each as often; half of all prompts are shorter by less than a
// quarter, never below kShortestPrompt.
int64_t StepLength(const Recipe& recipe, int64_t step, int64_t stage);

// How much of the pressure on heads the step has, 0 to 1: none up to heads.start, all heads.warmup later.
double PressureAt(const Recipe& recipe, int64_t step);

// What each head's output is multiplied by, [batch, layers, heads], fp32: 0 where it is left out, and
// 1 / (1 - share) elsewhere, so that its mean stays 1. Undefined where nothing is left out: without
// heads.dropout and without pressure.
at::Tensor HeadScale(const Recipe& recipe, int64_t step, int64_t batch);

}  // namespace ropelab::train
