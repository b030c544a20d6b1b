// ShallowTraining: a transformer of two layers learns a slash by gradient descent, in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/measure/kinds.h"
#include "worker/train/shallow_training.h"

namespace ropelab::measure {
namespace {

constexpr int64_t kMostSteps = 20000;  // 38 bytes each: the one reading stays below 1 MiB

absl::Status CheckStage(const char* stage, double rate, int64_t steps) {
  if (steps < 0 || steps > kMostSteps) {
    return absl::InvalidArgumentError(
        absl::StrCat(stage, "_steps is ", steps, "; it can be 0 to ", kMostSteps));
  }
  if (steps > 0 && (!std::isfinite(rate) || rate <= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(stage, "_rate is ", rate, "; a learning rate is a positive number"));
  }
  return absl::OkStatus();
}

absl::Status Check(const v1::ShallowTrainingRun& request) {
  ROPELAB_RETURN_IF_ERROR(CheckStage("first", request.first_rate(), request.first_steps()));
  ROPELAB_RETURN_IF_ERROR(CheckStage("second", request.second_rate(), request.second_steps()));
  if (request.first_steps() + request.second_steps() > kMostSteps) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_steps and second_steps are ", request.first_steps() + request.second_steps(),
                     " together; at most ", kMostSteps, " fit into one reading"));
  }
  for (const double theta : request.theta()) {
    if (!std::isfinite(theta)) {
      return absl::InvalidArgumentError(absl::StrCat("theta holds ", theta, "; give finite numbers"));
    }
  }
  if (!std::isfinite(request.semantic_theta())) {
    return absl::InvalidArgumentError(
        absl::StrCat("semantic_theta is ", request.semantic_theta(), "; give a finite number"));
  }
  if (request.batch() < 1 || request.watched() < 1 || request.judged() < 1) {
    return absl::InvalidArgumentError(absl::StrCat("batch, watched and judged are ", request.batch(), ", ",
                                                   request.watched(), " and ", request.judged(),
                                                   "; each is at least 1"));
  }
  return absl::OkStatus();
}

train::ShallowTrainingRun RunOf(const v1::ShallowTrainingRun& request) {
  train::ShallowTrainingRun run;
  run.shape = {request.features(), request.pairs(), request.offset()};
  run.frequencies = {{request.theta().begin(), request.theta().end()}, request.semantic_theta()};
  run.first = {request.first_rate(), request.first_steps()};
  run.second = {request.second_rate(), request.second_steps()};
  run.seed = request.seed();
  run.batch = request.batch();
  run.watched = request.watched();
  run.judged = request.judged();
  return run;
}

void Fill(const train::ShallowLoss& from, v1::ShallowLoss& to) {
  to.set_loss(from.loss);
  to.set_half_square(from.half_square);
}

}  // namespace

absl::StatusOr<Outcome> MeasureShallowTraining(const v1::ShallowTrainingRun& request, Recorder& recorder) {
  ROPELAB_RETURN_IF_ERROR(Check(request));
  ROPELAB_ASSIGN_OR_RETURN(const train::ShallowOutcome outcome,
                           train::TrainShallow(RunOf(request), [&](int64_t done, int64_t total) {
                             return recorder.Progress(static_cast<double>(done), static_cast<double>(total));
                           }));
  v1::Reading reading;
  v1::ShallowTrajectory& trajectory = *reading.mutable_shallow_trajectory();
  for (const train::ShallowStep& step : outcome.steps) {
    trajectory.add_stage(step.stage);
    trajectory.add_step(step.step);
    trajectory.add_min_slash(step.min_slash);
    trajectory.add_mean_slash(step.mean_slash);
    trajectory.add_feature_share(step.feature_share);
    trajectory.add_loss(step.loss);
  }
  Fill(outcome.in_distribution, *trajectory.mutable_in_distribution());
  Fill(outcome.scaled, *trajectory.mutable_scaled());
  Fill(outcome.shifted, *trajectory.mutable_shifted());
  trajectory.set_end_feature_share(outcome.feature_share);
  ROPELAB_RETURN_IF_ERROR(recorder.Emit(std::move(reading), {}));
  return Outcome{};
}

int64_t ShallowTrainingBytes(const v1::ShallowTrainingRun& request) {
  const auto n = 2.0 * static_cast<double>(request.pairs()) + 1;
  const auto d = static_cast<double>(request.features()) + 3;
  const auto prompts =
      static_cast<double>(std::max({2 * request.batch(), request.watched(), request.judged()}));
  // Angles, cosines, sines and one on the way; the embeddings of the largest set of prompts with their
  // products, and of the watched set; weights with their gradients.
  const double values = 4 * static_cast<double>(request.theta_size() + 2) * n * n +
                        2 * prompts * n * (d + 6) + static_cast<double>(request.watched()) * n * (d + 1) +
                        4 * d * d;
  return static_cast<int64_t>(std::clamp(8 * values, 0.0, 0x1p62));
}

}  // namespace ropelab::measure
