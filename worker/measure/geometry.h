// The RoPE geometry demo in plain doubles: scores of rotated content, and RoPE pairs seen as hands of a clock
// (EXPERIMENTS.md 13).
#pragma once

#include <cstdint>
#include <vector>

namespace ropelab::measure {

using Vector = std::vector<double>;

struct Ladder {
  Vector theta;              // rad/token per pair; D = 2 * theta.size()
  bool interleaved = false;  // pair p is (2p, 2p+1); otherwise (p, p + D/2)
};

// Theta_position x.
Vector Rotated(const Ladder& ladder, const Vector& x, double position);
double Norm(const Vector& x);
double Dot(const Vector& a, const Vector& b);

// Square matrix [n, n], row-major: the largest standard deviation (ddof 0) along any of its 2n - 1 diagonals.
double LargestDiagonalDeviation(const Vector& scores, int64_t n);
// Largest |S[m,n] - q' Theta_(n-m) k / sqrt(D)|.
double LargestIdentityError(const Ladder& ladder, const Vector& scores, int64_t n, const Vector& query,
                            const Vector& key);

struct ClockHand {
  int64_t nearest_lag = 0;  // least circular distance of lag * theta to 0 among lags 2..n-1, the smallest of
                            // a tie; 0: no such lag
  double nearest_distance = 0;   // rad
  std::vector<int64_t> aliases;  // lags 2..n-1 whose circular distance is below theta
};
ClockHand ReadHand(double theta, int64_t positions);

}  // namespace ropelab::measure
