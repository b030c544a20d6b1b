#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/experiments/shallow_training.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kDefaultFeatures = 4;
constexpr int64_t kDefaultPairs = 32;
constexpr double kDefaultFirstRate = 1, kDefaultSecondRate = 10;
constexpr int64_t kDefaultFirstSteps = 50, kDefaultSecondSteps = 300;
// Far above what memory allows, and low enough for arithmetic.
constexpr int64_t kMostFeatures = 1 << 20, kMostPairs = 1 << 20;
constexpr int kMostFrequencies = 4096;    // every task of an experiment carries them
constexpr int64_t kMostRunSteps = 20000;  // one reading of at most 1 MiB holds them
constexpr int64_t kMostSteps = 200000;    // of an experiment: 800 000 rows of `series`
constexpr double kMostBytes = 2.0 * (1 << 30);
constexpr int64_t kLeastAliasingPairs = 3;  // else no period of the counter-experiment fits twice

std::string At(const std::string& field) {
  return absl::StrCat("shallow_training.", field);
}

void ResolveStage(v1::TrainingStage& stage, double rate, int64_t steps) {
  if (!stage.has_learning_rate()) {
    stage.set_learning_rate(rate);
  }
  if (!stage.has_steps()) {
    stage.set_steps(steps);
  }
}

void ResolveDefaults(v1::ShallowTraining& training) {
  if (!training.has_features()) {
    training.set_features(kDefaultFeatures);
  }
  if (!training.has_offset()) {
    training.set_offset(1);
  }
  if (!training.has_pairs()) {
    const int64_t offset = std::clamp<int64_t>(training.offset(), 1, kMostPairs);
    training.set_pairs((kDefaultPairs + offset - 1) / offset * offset);
  }
  if (!training.frequencies().has_list()) {
    training.mutable_frequencies()->mutable_pulse();
  }
  ResolveStage(*training.mutable_stage1(), kDefaultFirstRate, kDefaultFirstSteps);
  ResolveStage(*training.mutable_stage2(), kDefaultSecondRate, kDefaultSecondSteps);
  if (!training.has_counter_experiments()) {
    training.set_counter_experiments(false);
  }
}

// Whether features, pairs and offset make a prompt.
bool CheckShape(const v1::ShallowTraining& training, Problems& problems) {
  const int64_t pairs = training.pairs(), offset = training.offset();
  if (training.features() < 1 || training.features() > kMostFeatures) {
    problems.Add(At("features"), absl::StrCat(training.features()),
                 absl::StrCat("must be 1 to ", kMostFeatures));
    return false;
  }
  if (pairs < 1 || pairs > kMostPairs) {
    problems.Add(At("pairs"), absl::StrCat(pairs), absl::StrCat("must be 1 to ", kMostPairs));
    return false;
  }
  if (offset < 1 || offset > kMostPairs) {
    problems.Add(At("offset"), absl::StrCat(offset), absl::StrCat("must be 1 to ", kMostPairs));
    return false;
  }
  if (pairs % offset != 0) {
    const int64_t below = pairs / offset * offset;
    problems.Add(At("pairs"), absl::StrCat(pairs),
                 absl::StrCat("must be a multiple of the offset ", offset, ", since blocks of ", offset,
                              " x's stand before their y's; take ",
                              below > 0 ? absl::StrCat(below, " or ") : "", below + offset));
    return false;
  }
  return true;
}

void CheckFrequencies(const v1::ShallowTraining& training, Problems& problems) {
  if (!training.frequencies().has_list()) {
    return;
  }
  const auto& theta = training.frequencies().list().theta();
  const std::string path = At("frequencies.list.theta");
  if (theta.empty()) {
    problems.Add(path, "", "lists no frequency; give at least one in rad/token, or pulse {}");
  }
  if (theta.size() > kMostFrequencies) {
    problems.Add(path, absl::StrCat(theta.size(), " frequencies"),
                 absl::StrCat("are too many; at most ", kMostFrequencies));
    return;
  }
  for (int i = 0; i < theta.size(); ++i) {
    if (!std::isfinite(theta[i])) {
      return;  // refused wherever it stands in a spec
    }
    const bool positive = theta[i] > 0;
    if (!positive || (i > 0 && theta[i] > theta[i - 1])) {
      problems.Add(absl::StrCat(path, "[", i, "]"), absl::StrCat(theta[i]),
                   positive ? absl::StrCat("frequencies descend, and the one before it is ", theta[i - 1])
                            : "a frequency is a positive number, in rad/token");
      return;
    }
  }
}

bool CheckStage(const char* field, const v1::TrainingStage& stage, Problems& problems) {
  if (!std::isfinite(stage.learning_rate())) {
    return false;  // refused wherever it stands in a spec
  }
  if (stage.learning_rate() <= 0) {
    problems.Add(At(absl::StrCat(field, ".learning_rate")), absl::StrCat(stage.learning_rate()),
                 "a learning rate is a positive number");
    return false;
  }
  if (stage.steps() < 0 || stage.steps() > kMostRunSteps) {
    problems.Add(At(absl::StrCat(field, ".steps")), absl::StrCat(stage.steps()),
                 absl::StrCat("must be 0 to ", kMostRunSteps, ", which one reading of 1 MiB holds"));
    return false;
  }
  return true;
}

void CheckSteps(const v1::ExperimentSpec& spec, Problems& problems) {
  const v1::ShallowTraining& training = spec.shallow_training();
  const int64_t first = training.stage1().steps(), second = training.stage2().steps();
  if (first + second > kMostRunSteps) {
    problems.Add(At("stage2.steps"), absl::StrCat(second),
                 absl::StrCat("makes ", first + second, " steps with stage1's ", first, "; at most ",
                              kMostRunSteps, ", which one reading of 1 MiB holds"));
    return;
  }
  if (training.counter_experiments() && (first == 0 || training.pairs() < kLeastAliasingPairs)) {
    problems.Add(At("counter_experiments"), "true",
                 first == 0 ? "trains stage I under other frequencies, so stage1.steps must be at least 1"
                            : absl::StrCat("needs at least ", kLeastAliasingPairs,
                                           " pairs, so that a short period fits into the prompt"));
    return;
  }
  int64_t steps = 0;
  for (const ShallowVariant& variant : VariantsOf(training)) {
    steps += variant.theta.empty() ? 0 : variant.first_steps + variant.second_steps;
  }
  if (steps * spec.seeds_size() > kMostSteps) {
    problems.Add("seeds", absl::StrCat(spec.seeds_size(), " seeds"),
                 absl::StrCat("make ", steps * spec.seeds_size(), " training steps with the ", steps,
                              " of each seed; at most ", kMostSteps, " in one experiment, so take fewer ",
                              "seeds or steps, or leave counter_experiments out"));
  }
}

// The frequencies of the run that has the most of them, at other pairs.
int64_t MostFrequencies(const v1::ShallowTraining& training, int64_t pairs) {
  const int64_t own =
      training.frequencies().has_list() ? training.frequencies().list().theta_size() : pairs + 1;
  return training.counter_experiments() ? std::max(own, (2 * pairs + 1) / 4) : own;
}

void CheckMemory(const v1::ShallowTraining& training, Problems& problems) {
  const auto bytes = [&](int64_t pairs) {
    return ShallowMemory(training.features(), pairs, MostFrequencies(training, pairs));
  };
  if (bytes(training.pairs()) <= kMostBytes) {
    return;
  }
  const int64_t offset = training.offset();
  int64_t fits = 0, over = training.pairs() / offset;  // in blocks
  while (fits + 1 < over) {
    const int64_t middle = (fits + over) / 2;
    (bytes(middle * offset) <= kMostBytes ? fits : over) = middle;
  }
  problems.Add(At("pairs"), absl::StrCat(training.pairs()),
               absl::StrFormat(
                   "a training of %d positions, %d features and %d frequencies needs %.3g GiB, and at most "
                   "%.3g are taken; %s",
                   2 * training.pairs() + 1, training.features(), MostFrequencies(training, training.pairs()),
                   bytes(training.pairs()) / (1 << 30), kMostBytes / (1 << 30),
                   fits > 0 ? absl::StrCat("with these, at most ", fits * offset, " pairs fit")
                            : "take fewer features or frequencies"));
}

}  // namespace

double ShallowMemory(int64_t features, int64_t pairs, int64_t frequencies) {
  const double n = 2 * static_cast<double>(pairs) + 1, d = static_cast<double>(features) + 3;
  const auto judged = static_cast<double>(kShallowJudged), watched = static_cast<double>(kShallowWatched);
  return 8 * (4 * (static_cast<double>(frequencies) + 2) * n * n + 2 * judged * n * (d + 6) +
              watched * n * (d + 1) + 4 * d * d);
}

void ShallowTrainingExperiment::Resolve(v1::ExperimentSpec& spec, const Facts&, Problems& problems) const {
  v1::ShallowTraining& training = *spec.mutable_shallow_training();
  ResolveDefaults(training);
  const bool shaped = CheckShape(training, problems);
  CheckFrequencies(training, problems);
  const bool first = CheckStage("stage1", training.stage1(), problems);
  const bool second = CheckStage("stage2", training.stage2(), problems);
  if (shaped) {
    CheckMemory(training, problems);
  }
  if (shaped && first && second && problems.empty()) {
    CheckSteps(spec, problems);
  }
}

}  // namespace ropelab::experiments
