// The whole of ropelab-train: tokenizer, training, checkpoints, the finished model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "worker/train/recipe.h"

namespace ropelab::train {

struct TrainingOptions {
  std::string out;  // directory; made if missing
  // Ends after so many steps in all, with its state saved at the last evaluation before; absent: at the
  // recipe's end.
  std::optional<int64_t> stop_after;
  // What computes, as the caller has set it up: a state goes on only under the same (train_state.h).
  int64_t threads = 1;
  std::string numerics = {};  // hash of the numerics class
};

// An evaluation, for people; the same figures stand in curve.csv.
struct TrainingProgress {
  int64_t step = 0;                       // steps taken
  int64_t length = 0;                     // tokens of the curriculum's present prompts
  double text_loss = 0, answer_loss = 0;  // nats per token, means since the last evaluation
  double accuracy = 0;                    // of needles at `length`
  double steps_per_minute = 0;            // since the last evaluation, that one counted
};

// Writes into `out`:
//   NAME/{config.json, tokenizer.json, model.safetensors}  the model, at the end
//   NAME/curve.csv         a row per evaluation
//   NAME/evaluation.csv    at the end: right answers by length and depth
//   checkpoints/NAME-STEP/ models along the way, and checkpoints/checkpoints.csv with the tokens read by then
//   state/                 what a run that was ended goes on from, to the same bytes; its lock
// and returns the steps taken in all: fewer than the recipe's where stop_after ended it before. A directory
// whose training has ended is left as it is. Errors are sentences with a remedy: those of
// OutputFolder::Claim, before anything is computed; of CheckNeedlesFit and LoadState, before a step is taken;
// FAILED_PRECONDITION names the step at which the loss or the gradient is not finite, which is never saved;
// RESOURCE_EXHAUSTED names the shape for which the memory ran out. Nothing is thrown.
absl::StatusOr<int64_t> Train(const Recipe& recipe, const TrainingOptions& options,
                              absl::FunctionRef<void(const TrainingProgress&)> progress);

}  // namespace ropelab::train
