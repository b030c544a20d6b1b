#include "server/statistics/moments.h"

#include <cmath>

namespace ropelab::statistics {

void Merge(const Moments& block, Moments& total) {
  if (block.n == 0) {
    return;
  }
  if (total.n == 0) {
    total = block;
    return;
  }
  const double a = static_cast<double>(total.n);
  const double b = static_cast<double>(block.n);
  const double delta = block.mean - total.mean;
  total.mean += delta * (b / (a + b));
  total.m2 += block.m2 + delta * delta * (a * b / (a + b));
  total.n += block.n;
}

std::optional<double> StandardError(const Moments& moments) {
  if (moments.n < 2) {
    return std::nullopt;
  }
  const double n = static_cast<double>(moments.n);
  return std::sqrt(moments.m2 / (n - 1) / n);
}

}  // namespace ropelab::statistics
