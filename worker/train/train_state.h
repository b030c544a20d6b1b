// What a training resumes from: one file, replaced in one step.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/train/adamw.h"
#include "worker/train/output_folder.h"
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

// What decides a training's bytes beside the recipe. A state goes on only under the one that it was made
// under.
struct TrainingOrigin {
  int64_t threads = 0;    // that compute
  std::string numerics;   // hash of their numerics class (engine/numerics.h)
  std::string tokenizer;  // SHA-256 of tokenizer.json
};

// OUT/state/model.safetensors holds weights, the optimizer's means, the state, the recipe and the origin.
absl::Status SaveState(const OutputFolder& folder, const Recipe& recipe, const TrainingOrigin& origin,
                       const TrainState& state, const TrainableModel& model, const AdamW& optimizer);

// Fills model and optimizer; after an error what they hold is undefined. NOT_FOUND: there is no state.
// FAILED_PRECONDITION: it was made with another recipe or origin (both values are named), or by another
// version of the trainer; DATA_LOSS: the file is damaged or its numbers are none of this recipe's. Each names
// the remedy.
absl::StatusOr<TrainState> LoadState(const OutputFolder& folder, const Recipe& recipe,
                                     const TrainingOrigin& origin, const TrainableModel& model,
                                     const AdamW& optimizer);

}  // namespace ropelab::train
