#include "worker/train/shallow_training.h"

#include <torch/torch.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/random.h"

namespace ropelab::train {
namespace {

constexpr auto kTraining = static_cast<uint64_t>(engine::Purpose::kShallowTraining);
constexpr auto kWatched = static_cast<uint64_t>(engine::Purpose::kShallowWatched);
constexpr auto kJudged = static_cast<uint64_t>(engine::Purpose::kShallowJudged);
constexpr double kOutOfDistributionScale = 5;
constexpr double kOutOfDistributionShift = 1;

at::Tensor Loss(const at::Tensor& value, const ShallowBatch& batch) {
  return (value - batch.answer).square().mean() * 0.5;
}

double FeatureShare(const at::Tensor& attention, const ShallowBatch& batch) {
  return (attention * batch.matches).sum(1).mean().item<double>();
}

class Training {
 public:
  explicit Training(const ShallowTrainingRun& run)
      : run_(run),
        transformer_(run.shape, run.frequencies),
        watched_(DrawPrompts(run.shape, {}, run.seed, kWatched, 0, run.watched)) {}

  absl::StatusOr<ShallowOutcome> Go(absl::FunctionRef<absl::Status(int64_t done, int64_t total)> progress) {
    const int64_t total = run_.first.steps + run_.second.steps;
    ROPELAB_RETURN_IF_ERROR(Watch(1, 0));
    ROPELAB_RETURN_IF_ERROR(Descend(1, run_.first, transformer_.first_weight, total, progress));
    ROPELAB_RETURN_IF_ERROR(Descend(2, run_.second, transformer_.second_weight, total, progress));
    outcome_.in_distribution = Judge({}, &outcome_.feature_share);
    outcome_.scaled = Judge({kOutOfDistributionScale, 0}, nullptr);
    outcome_.shifted = Judge({1, kOutOfDistributionShift}, nullptr);
    return std::move(outcome_);
  }

 private:
  absl::Status Descend(int stage, const StageRule& rule, at::Tensor& weight, int64_t total,
                       absl::FunctionRef<absl::Status(int64_t done, int64_t total)> progress) {
    for (int64_t step = 1; step <= rule.steps; ++step) {
      const ShallowBatch batch = DrawPrompts(run_.shape, {}, run_.seed, kTraining, drawn_, run_.batch);
      drawn_ += run_.batch;
      weight = weight - rule.learning_rate * BatchGradient(transformer_, stage, batch);
      ROPELAB_RETURN_IF_ERROR(Watch(stage, step));
      ROPELAB_RETURN_IF_ERROR(progress(++done_, total));
    }
    return absl::OkStatus();
  }

  absl::Status Watch(int stage, int64_t step) {
    const at::NoGradGuard no_gradients;
    const at::Tensor first = transformer_.FirstAttention();
    const ShallowTransformer::Answer answer = transformer_.Forward(watched_, first);
    const at::Tensor slash = at::diagonal(first, -run_.shape.offset);
    ShallowStep figures{stage, step};
    figures.min_slash = slash.min().item<double>();
    figures.mean_slash = slash.mean().item<double>();
    figures.feature_share = FeatureShare(answer.second_attention, watched_);
    figures.loss = Loss(answer.value, watched_).item<double>();
    if (!std::isfinite(figures.loss)) {
      return absl::FailedPreconditionError(absl::StrCat("stage ", stage, ", step ", step,
                                                        ": the loss is not finite; lower the learning rate"));
    }
    outcome_.steps.push_back(figures);
    return absl::OkStatus();
  }

  ShallowLoss Judge(const TaskLaw& law, double* feature_share) const {
    const at::NoGradGuard no_gradients;
    const ShallowBatch batch = DrawPrompts(run_.shape, law, run_.seed, kJudged, 0, run_.judged);
    const ShallowTransformer::Answer answer = transformer_.Forward(batch, transformer_.FirstAttention());
    if (feature_share != nullptr) *feature_share = FeatureShare(answer.second_attention, batch);
    return {Loss(answer.value, batch).item<double>(), batch.answer.square().mean().item<double>() * 0.5};
  }

  const ShallowTrainingRun& run_;
  ShallowTransformer transformer_;
  const ShallowBatch watched_;
  ShallowOutcome outcome_;
  int64_t drawn_ = 0, done_ = 0;
};

}  // namespace

at::Tensor BatchLoss(const ShallowTransformer& transformer, const ShallowBatch& batch) {
  return Loss(transformer.Forward(batch, transformer.FirstAttention()).value, batch);
}

at::Tensor BatchGradient(const ShallowTransformer& transformer, int layer, const ShallowBatch& batch) {
  ShallowTransformer differentiated = transformer;
  at::Tensor& weight = layer == 1 ? differentiated.first_weight : differentiated.second_weight;
  weight = weight.detach().clone().requires_grad_(true);
  return torch::autograd::grad({BatchLoss(differentiated, batch)}, {weight})[0];
}

absl::StatusOr<ShallowOutcome> TrainShallow(
    const ShallowTrainingRun& run, absl::FunctionRef<absl::Status(int64_t done, int64_t total)> progress) {
  ROPELAB_RETURN_IF_ERROR(CheckShape(run.shape));
  if (run.frequencies.cone.empty()) {
    return absl::InvalidArgumentError("frequencies are empty; give at least one, in rad/token");
  }
  return Training(run).Go(progress);
}

}  // namespace ropelab::train
