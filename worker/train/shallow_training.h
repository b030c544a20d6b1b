// Two-stage gradient descent on the shallow transformer: Algorithm 1 of the slash paper, from its prescribed
// start.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/train/shallow_transformer.h"

namespace ropelab::train {

struct StageRule {
  double learning_rate = 0;
  int64_t steps = 0;
};

struct ShallowTrainingRun {
  ShallowShape shape;
  ShallowFrequencies frequencies;
  StageRule first, second;  // stage I trains layer 1, stage II layer 2
  uint64_t seed = 0;
  int64_t batch = 256;     // prompts per step, fresh ones each step
  int64_t watched = 1024;  // prompts that every step's figures are taken on; the same for all steps
  int64_t judged = 4096;   // fresh prompts for the end's figures
};

// After a step; the first entry is the start.
struct ShallowStep {
  int stage = 1;
  int64_t step = 0;          // within its stage; 0 is the start
  double min_slash = 0;      // min over rows i >= Delta of S1[i, i - Delta]
  double mean_slash = 0;     // their mean
  double feature_share = 0;  // S2_k, equation (16), k the question's feature: mean over prompts
  double loss = 0;           // half the mean squared error, equation (15)
};

// Half the mean squared error on fresh prompts, and half the answers' mean square beside it.
struct ShallowLoss {
  double loss = 0;
  double half_square = 0;
};

struct ShallowOutcome {
  std::vector<ShallowStep> steps;
  ShallowLoss in_distribution, scaled, shifted;  // w as trained; times 5; with 1 added to every coordinate
  double feature_share = 0;                      // on the in-distribution judged prompts
};

// The loss of the batch, and its gradient with respect to the weight of `layer` (1 or 2), by reverse-mode
// differentiation.
at::Tensor BatchLoss(const ShallowTransformer& transformer, const ShallowBatch& batch);
at::Tensor BatchGradient(const ShallowTransformer& transformer, int layer, const ShallowBatch& batch);

// Gradients are exact for the batch, float64. The same run gives the same bits
// on the same numerics class. `progress` returns a status that is not OK to stop. FAILED_PRECONDITION names
// stage and step where the loss is no longer finite (a learning rate too large); INVALID_ARGUMENT:
// CheckShape's, or no frequencies.
absl::StatusOr<ShallowOutcome> TrainShallow(
    const ShallowTrainingRun& run, absl::FunctionRef<absl::Status(int64_t done, int64_t total)> progress);

}  // namespace ropelab::train
