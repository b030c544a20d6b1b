#include "worker/engine/draw.h"

#include <algorithm>
#include <cmath>

namespace ropelab::engine {

int32_t LargestLogit(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

int32_t DrawToken(std::span<const float> logits, double temperature, double uniform,
                  std::vector<double>& weights) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  weights.resize(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((logits[i] - largest) / temperature);
    sum += weights[i];
  }
  const double target = uniform * sum;
  double running = 0;
  size_t last_possible = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    running += weights[i];
    if (running > target) return static_cast<int32_t>(i);
    if (weights[i] > 0) last_possible = i;
  }
  // uniform < 1, yet the product can round up to the sum itself.
  return static_cast<int32_t>(last_possible);
}

}  // namespace ropelab::engine
