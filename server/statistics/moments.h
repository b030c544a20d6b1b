// Count, mean and sum of squared deviations of a sample, and how two disjoint samples merge. Sums of squares
// are avoided: on equal values they give negative variances.
#pragma once

#include <cstdint>
#include <optional>

namespace ropelab::statistics {

struct Moments {
  int64_t n = 0;
  double mean = 0;
  double m2 = 0;  // sum of (x - mean)^2
};

// Adds `block` to `total` (Chan, Golub and LeVeque 1979, the parallel formula). Rounding depends on the order
// of the merges: whoever wants equal bits merges in a fixed order.
void Merge(const Moments& block, Moments& total);

// SD (ddof 1) / sqrt(n) of the mean. Undefined for fewer than two values.
std::optional<double> StandardError(const Moments& moments);

}  // namespace ropelab::statistics
