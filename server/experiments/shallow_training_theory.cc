#include "server/experiments/shallow_training_theory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace ropelab::experiments {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

double ClippedLog(double x) {
  return std::max(0.0, std::log(x));
}

}  // namespace

std::vector<double> PulseOfPairs(int64_t pairs) {
  std::vector<double> theta;
  for (int64_t s = 1; s <= pairs; ++s) {
    theta.push_back(2.0 * std::numbers::pi * static_cast<double>(pairs + 1 - s) /
                    static_cast<double>(2 * pairs + 1));
  }
  return theta;
}

FrequencyCondition ConditionOf(const std::vector<double>& theta, int64_t positions) {
  double least = std::numeric_limits<double>::infinity(), largest = -least;
  for (int64_t lag = 1; lag <= positions; ++lag) {  // cosines are even: negative lags give the same
    double sum = 0;
    for (const double frequency : theta) {
      sum += std::cos(frequency * static_cast<double>(lag));
    }
    least = std::min(least, sum);
    largest = std::max(largest, sum);
  }
  FrequencyCondition condition;
  condition.c2 = (largest + least) / 2;
  condition.epsilon = (largest - least) / 2;
  condition.c1 = static_cast<double>(theta.size()) - condition.c2;
  condition.least_l =
      condition.c1 > 0 ? condition.epsilon * static_cast<double>(positions) / condition.c1 : kNotANumber;
  return condition;
}

double FirstTolerance(int64_t positions) {
  return 1 / std::sqrt(static_cast<double>(positions));
}

double SecondTolerance(int64_t positions) {
  return std::sqrt(FirstTolerance(positions));
}

double FirstBound(int64_t features, int64_t positions, double learning_rate, double c1) {
  if (!(c1 > 0)) {
    return kNotANumber;
  }
  const auto k = static_cast<double>(features), n = static_cast<double>(positions);
  const double tolerance = FirstTolerance(positions);
  return (k * n * std::log(n) + k * ClippedLog(1 / (k * tolerance)) / tolerance) / (learning_rate * c1);
}

double SecondBound(int64_t features, int64_t positions, double learning_rate) {
  const auto k = static_cast<double>(features);
  const double tolerance = SecondTolerance(positions);
  return (k * k * std::log(k) + k * ClippedLog(k / std::sqrt(tolerance)) / tolerance) / learning_rate;
}

}  // namespace ropelab::experiments
