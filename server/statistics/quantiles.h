// Quantiles of a sample, and Tukey's box of it.
#pragma once

#include <span>
#include <vector>

namespace ropelab::statistics {

// Quantile p, 0 <= p <= 1, of n > 0 ascending values: linear between the two values around place p (n - 1)
// (numpy's default; type 7 of Hyndman and Fan 1996).
double Quantile(const std::vector<double>& ascending, double p);

// Of n > 0 values in any order; of an even count the mean of the middle two.
double Median(std::span<const double> values);

struct FiveNumbers {
  double minimum = 0, q1 = 0, median = 0, q3 = 0, maximum = 0;
  // Tukey's rule: below q1 - 1.5 (q3 - q1) or above q3 + 1.5 (q3 - q1).
  bool IsOutlier(double value) const;
};
// Of n > 0 values in any order.
FiveNumbers FiveNumbersOf(std::vector<double> values);

}  // namespace ropelab::statistics
