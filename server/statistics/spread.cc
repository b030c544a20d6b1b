#include "server/statistics/spread.h"

#include <cmath>

namespace ropelab::statistics {

Spread SpreadOf(std::span<const double> values) {
  const double n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
  }
  Spread spread;
  spread.mean = sum / n;
  for (const double value : values) {
    squares += (value - spread.mean) * (value - spread.mean);
  }
  if (values.size() > 1) {
    spread.sd = std::sqrt(squares / (n - 1));
  }
  return spread;
}

}  // namespace ropelab::statistics
