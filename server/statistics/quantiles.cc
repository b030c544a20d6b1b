#include "server/statistics/quantiles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace ropelab::statistics {

double Quantile(const std::vector<double>& ascending, double p) {
  const double place = p * static_cast<double>(ascending.size() - 1);
  const size_t below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, ascending.size() - 1);
  const double share = place - static_cast<double>(below);
  return ascending[below] + share * (ascending[above] - ascending[below]);
}

double Median(std::span<const double> values) {
  std::vector<double> ascending(values.begin(), values.end());
  std::sort(ascending.begin(), ascending.end());
  return Quantile(ascending, 0.5);
}

bool FiveNumbers::IsOutlier(double value) const {
  const double reach = 1.5 * (q3 - q1);
  return value < q1 - reach || value > q3 + reach;
}

FiveNumbers FiveNumbersOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), Quantile(values, 0.25), Quantile(values, 0.5), Quantile(values, 0.75),
          values.back()};
}

}  // namespace ropelab::statistics
