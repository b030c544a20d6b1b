// From logits to a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ropelab::engine {

// Index of the largest logit, the first of ties. logits must not be empty.
int32_t LargestLogit(std::span<const float> logits);

// Inverse of the cumulated softmax(logits / temperature), in double and in ascending index: the first index
// whose running sum exceeds uniform * sum. temperature > 0, uniform in [0, 1). `weights` is scratch.
int32_t DrawToken(std::span<const float> logits, double temperature, double uniform,
                  std::vector<double>& weights);

}  // namespace ropelab::engine
