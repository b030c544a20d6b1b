#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/experiments/cost.h"
#include "server/experiments/shallow_training.h"
#include "server/experiments/shallow_training_theory.h"

namespace ropelab::experiments {
namespace {

// Zeroed bands only slow stage I down: with the two upper ones zeroed about tenfold, and a spec's own steps
// leave room beyond those that the full set needs.
constexpr int64_t kBandPatience = 8;
constexpr int64_t kMostRunSteps = 20000;
// Uniform attention gives 1/N on the last row; nothing that learns stays below.
constexpr double kUniformCeiling = 0.05;
// Two lags that the frequencies cannot tell apart share the attention; the rest is rounding.
constexpr double kAliasCeiling = 0.5 + 1e-9;

// Bands as everywhere: pairs up to n/3 are high, up to 2n/3 medium, the rest low.
ShallowVariant WithoutBand(const char* name, const v1::ShallowTraining& training, int64_t first,
                           int64_t last) {
  ShallowVariant variant{name, ShallowVariant::Role::kBand, {}, 0, 0, 0};
  variant.first_steps = std::min(kBandPatience * training.stage1().steps(), kMostRunSteps);
  if (first < last) {
    variant.theta = ThetaOf(training);
    std::fill(variant.theta.begin() + first, variant.theta.begin() + last, 0.0);
  }
  return variant;
}

// The most pairs, up to N/4, whose period is short enough for some row to see the lag twice.
int64_t AliasingPairs(const v1::ShallowTraining& training) {
  const int64_t n = PositionsOf(training);
  return std::max<int64_t>(1, std::min(n / 4, (n - 2 - training.offset()) / 2));
}

double SlowFrequency(int64_t positions) {
  return 1 / (static_cast<double>(positions) * static_cast<double>(positions));
}

}  // namespace

int64_t PositionsOf(const v1::ShallowTraining& training) {
  return 2 * training.pairs() + 1;
}

std::vector<double> ThetaOf(const v1::ShallowTraining& training) {
  if (training.frequencies().has_list()) {
    const auto& theta = training.frequencies().list().theta();
    return {theta.begin(), theta.end()};
  }
  return PulseOfPairs(training.pairs() + 1);  // ceil(N/2)
}

std::vector<ShallowVariant> VariantsOf(const v1::ShallowTraining& training) {
  using Role = ShallowVariant::Role;
  const std::vector<double> theta = ThetaOf(training);
  const int64_t steps = training.stage1().steps();
  std::vector<ShallowVariant> variants = {{"full", Role::kFull, theta, steps, training.stage2().steps(), 0}};
  if (!training.counter_experiments()) {
    return variants;
  }
  const int64_t positions = PositionsOf(training);
  const double uniform = std::max(kUniformCeiling, 2.0 / static_cast<double>(positions));
  variants.push_back({"zero", Role::kMustFail, std::vector<double>(theta.size(), 0.0), steps, 0, uniform});
  variants.push_back({"slow", Role::kMustFail, std::vector<double>(theta.size(), SlowFrequency(positions)),
                      steps, 0, uniform});
  variants.push_back(
      {"alias", Role::kMustFail, PulseOfPairs(AliasingPairs(training)), steps, 0, kAliasCeiling});
  const auto n = static_cast<int64_t>(theta.size());
  variants.push_back(WithoutBand("no_high", training, 0, n / 3));
  variants.push_back(WithoutBand("no_medium", training, n / 3, 2 * n / 3));
  variants.push_back(WithoutBand("no_low", training, 2 * n / 3, n));
  variants.push_back(WithoutBand("no_high_medium", training, 0, 2 * n / 3));
  return variants;
}

absl::StatusOr<std::optional<StagePlan>> ShallowTrainingExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                         const Context&, int64_t stage,
                                                                         StageReadings&) const {
  if (stage > 1) {
    return std::optional<StagePlan>();
  }
  const v1::ShallowTraining& training = spec.shallow_training();
  StagePlan plan;
  for (const uint64_t seed : spec.seeds()) {
    for (const ShallowVariant& variant : VariantsOf(training)) {
      if (variant.theta.empty()) {
        continue;
      }
      v1::ShallowTrainingRun& run = *plan.emplace_back().measurement.mutable_shallow_training();
      run.set_features(training.features());
      run.set_pairs(training.pairs());
      run.set_offset(training.offset());
      run.mutable_theta()->Assign(variant.theta.begin(), variant.theta.end());
      run.set_semantic_theta(SlowFrequency(PositionsOf(training)));
      run.set_first_steps(variant.first_steps);
      run.set_second_steps(variant.second_steps);
      // A rate that moves nothing is no part of the task: else equal work would have unequal keys.
      run.set_first_rate(variant.first_steps > 0 ? training.stage1().learning_rate() : 0);
      run.set_second_rate(variant.second_steps > 0 ? training.stage2().learning_rate() : 0);
      run.set_seed(seed);
      run.set_batch(kShallowBatch);
      run.set_watched(kShallowWatched);
      run.set_judged(kShallowJudged);
    }
  }
  return std::optional<StagePlan>(std::move(plan));
}

v1::Estimate ShallowTrainingExperiment::Cost(const v1::ExperimentSpec& spec, const Facts&) const {
  const v1::ShallowTraining& training = spec.shallow_training();
  const auto n = static_cast<double>(PositionsOf(training)), d = static_cast<double>(training.features()) + 3;
  const double a_prompt = 4 * n * n + 6 * n * d;  // two products with layer 1, and what they are made of
  int64_t steps = 0;
  double flops = 0;
  v1::Estimate estimate;
  for (const ShallowVariant& variant : VariantsOf(training)) {
    if (variant.theta.empty()) {
      continue;
    }
    const int64_t own = variant.first_steps + variant.second_steps;
    const double a_step = static_cast<double>(3 * kShallowBatch + kShallowWatched) * a_prompt +
                          16 * static_cast<double>(variant.theta.size()) * n * n;
    flops += static_cast<double>(own) * a_step + 3 * static_cast<double>(kShallowJudged) * a_prompt;
    steps += own;
    estimate.set_tasks(estimate.tasks() + spec.seeds_size());
  }
  const auto seeds = static_cast<int64_t>(spec.seeds_size());
  estimate.set_reading_bytes(seeds * (steps * 38) + estimate.tasks() * 256);
  estimate.set_result_bytes(seeds * (steps * 4 * 64 + 8192));
  // Short products and elementwise work in double reach a quarter of the stated rate.
  SetDeviceSeconds(4 * static_cast<double>(seeds) * flops, estimate);
  estimate.set_basis(
      absl::StrFormat("%d steps of %d prompts of %d positions in double, and their figures on %d",
                      seeds * steps, kShallowBatch, PositionsOf(training), kShallowWatched));
  return estimate;
}

}  // namespace ropelab::experiments
