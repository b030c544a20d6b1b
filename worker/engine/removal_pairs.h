// RoPE pairs named by frequency, and where they are stored. rotate_half layout: the pair stored at j is the
// dimensions j and j + D/2.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace ropelab::engine {

// Storage places (from 0) of all pairs, fastest first; of equal frequencies the one stored first. After a
// checkpoint's scaling storage order need not be frequency order.
std::vector<int64_t> PairsByFrequency(const std::vector<double>& inv_freq);

// The dimensions of one head that `pairs` cover: first the pairs' lower halves, then their upper ones. Pairs
// count from 1, fastest first. INVALID_ARGUMENT, naming the pair, unless they ascend within 1..D/2.
absl::StatusOr<std::vector<int64_t>> DimensionsOfPairs(const std::vector<int64_t>& pairs,
                                                       const std::vector<double>& inv_freq);

}  // namespace ropelab::engine
