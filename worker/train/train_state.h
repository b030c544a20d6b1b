// What a training resumes from: one file, replaced in one step.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/train/adamw.h"
#include "worker/train/recipe.h"
#include "worker/train/trainable_model.h"

namespace ropelab::train {

struct TrainState {
  int64_t step = 0;         // steps taken
  int64_t stage = 0;        // place in the curriculum's lengths
  int64_t tokens = 0;       // read so far
  std::string curve;        // curve.csv so far
  std::string checkpoints;  // checkpoints.csv so far
};

// DIRECTORY/model.safetensors holds weights, the optimizer's means, the state and the recipe.
absl::Status SaveState(const std::string& directory, const Recipe& recipe, const TrainState& state,
                       const TrainableModel& model, const AdamW& optimizer);

// Fills model and optimizer. NOT_FOUND: there is no state. FAILED_PRECONDITION: it was made with another
// recipe or another build of this file; INVALID_ARGUMENT: the file is damaged.
absl::StatusOr<TrainState> LoadState(const std::string& directory, const Recipe& recipe,
                                     const TrainableModel& model, const AdamW& optimizer);

}  // namespace ropelab::train
