// What the slash paper's section 5 says of a training before it runs: Assumption 5.1 and the bounds of
// Theorem 5.3.
#pragma once

#include <cstdint>
#include <vector>

namespace ropelab::experiments {

// m frequencies 2 pi (m+1-s)/(2m+1) in rad/token, s = 1..m: descending. Their cosines add up to m at lag 0
// and to -1/2 at every other lag that is no multiple of the period 2m + 1.
std::vector<double> PulseOfPairs(int64_t pairs);

// Assumption 5.1, part 2, for f(x) = sum of cos(theta_s x) over lags 1 <= |x| <= positions: the constants
// that leave the least noise.
struct FrequencyCondition {
  double c1 = 0;       // height of the pulse: f(0) - c2
  double c2 = 0;       // (max + min) / 2 of f off lag 0
  double epsilon = 0;  // (max - min) / 2
  // The assumption's L is at least epsilon * positions / c1; not a number where there is no pulse (c1 <= 0).
  double least_l = 0;
};
FrequencyCondition ConditionOf(const std::vector<double>& theta, int64_t positions);

// N^-1/2 and N^-1/4: how far from 1 attention may stay in layers 1 and 2.
double FirstTolerance(int64_t positions);
double SecondTolerance(int64_t positions);

// The theorem's bounds on the steps of the stages with every hidden constant 1 and negative logarithms as 0:
//   K N ln N / (eta1 C1) + K ln(1 / (K eps1)) / (eps1 eta1 C1)
//   K^2 ln K / eta2 + K ln(K eps2^-1/2) / (eta2 eps2)
// Natural logarithms. Not a number where c1 <= 0.
double FirstBound(int64_t features, int64_t positions, double learning_rate, double c1);
double SecondBound(int64_t features, int64_t positions, double learning_rate);

}  // namespace ropelab::experiments
