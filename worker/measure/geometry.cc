#include "worker/measure/geometry.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ropelab::measure {
namespace {

double CircularDistance(double angle) {
  constexpr double kTurn = 2.0 * std::numbers::pi;
  const double rest = std::fmod(std::abs(angle), kTurn);
  return std::min(rest, kTurn - rest);
}

// ddof 0, in two passes.
double Deviation(const Vector& values) {
  double mean = 0, squares = 0;
  for (double value : values) mean += value;
  mean /= static_cast<double>(values.size());
  for (double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

Vector Rotated(const Ladder& ladder, const Vector& x, double position) {
  const size_t pairs = ladder.theta.size();
  Vector rotated(x.size());
  for (size_t p = 0; p < pairs; ++p) {
    const size_t a = ladder.interleaved ? 2 * p : p;
    const size_t b = ladder.interleaved ? 2 * p + 1 : p + pairs;
    const double angle = position * ladder.theta[p];
    rotated[a] = std::cos(angle) * x[a] - std::sin(angle) * x[b];
    rotated[b] = std::sin(angle) * x[a] + std::cos(angle) * x[b];
  }
  return rotated;
}

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double Norm(const Vector& x) {
  return std::sqrt(Dot(x, x));
}

double LargestDiagonalDeviation(const Vector& scores, int64_t n) {
  double largest = 0;
  for (int64_t offset = 1 - n; offset < n; ++offset) {
    Vector diagonal;
    for (int64_t m = std::max<int64_t>(0, -offset); m < n && m + offset < n; ++m) {
      diagonal.push_back(scores[m * n + m + offset]);
    }
    largest = std::max(largest, Deviation(diagonal));
  }
  return largest;
}

double LargestIdentityError(const Ladder& ladder, const Vector& scores, int64_t n, const Vector& query,
                            const Vector& key) {
  const double root = std::sqrt(static_cast<double>(query.size()));
  double largest = 0;
  for (int64_t lag = 1 - n; lag < n; ++lag) {  // n - m
    const double expected = Dot(query, Rotated(ladder, key, static_cast<double>(lag))) / root;
    for (int64_t m = std::max<int64_t>(0, -lag); m < n && m + lag < n; ++m) {
      largest = std::max(largest, std::abs(scores[m * n + m + lag] - expected));
    }
  }
  return largest;
}

ClockHand ReadHand(double theta, int64_t positions) {
  ClockHand hand;
  for (int64_t lag = 2; lag < positions; ++lag) {
    const double distance = CircularDistance(static_cast<double>(lag) * theta);
    if (hand.nearest_lag == 0 || distance < hand.nearest_distance) {
      hand.nearest_lag = lag;
      hand.nearest_distance = distance;
    }
    if (distance < theta) hand.aliases.push_back(lag);
  }
  return hand;
}

}  // namespace ropelab::measure
