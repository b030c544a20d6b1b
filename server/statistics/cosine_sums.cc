#include "server/statistics/cosine_sums.h"

#include <algorithm>
#include <cmath>

namespace ropelab::statistics {

std::vector<double> CosineSums(const std::vector<double>& theta, int64_t last_lag) {
  std::vector<double> sums(static_cast<size_t>(last_lag) + 1);
  for (const double frequency : theta) {
    for (size_t lag = 0; lag < sums.size(); ++lag) {
      sums[lag] += std::cos(frequency * static_cast<double>(lag));
    }
  }
  return sums;
}

PulseFit FitPulse(const std::vector<double>& sums) {
  const auto [smallest, largest] = std::minmax_element(sums.begin() + 1, sums.end());
  PulseFit fit;
  fit.c2 = (*largest + *smallest) / 2;
  fit.epsilon = (*largest - *smallest) / 2;
  fit.c1 = sums.front() - fit.c2;
  return fit;
}

}  // namespace ropelab::statistics
