// Sums of cosines over lags, and how near such a sum is to a pulse at lag 0. The slash paper, section 5.2.
#pragma once

#include <cstdint>
#include <vector>

namespace ropelab::statistics {

// f(x) = sum over theta of cos(theta x) at lags x = 0, 1, ..., last_lag; theta in rad/token. The sum is even:
// f(-x) = f(x). Added in the order given, in double. last_lag >= 0.
std::vector<double> CosineSums(const std::vector<double>& theta, int64_t last_lag);

// How near f is to C1 * (1 at lag 0, else 0) + C2: EXPERIMENTS.md section 4, Assumption 5.1.
struct PulseFit {
  double c1 = 0;       // f(0) - c2
  double c2 = 0;       // middle of f's values at lags 1 to last_lag
  double epsilon = 0;  // half of their range
};
// Of the values at lags 0 to last_lag, last_lag >= 1.
PulseFit FitPulse(const std::vector<double>& sums);

}  // namespace ropelab::statistics
