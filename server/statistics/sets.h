// How much two sets of heads have in common.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "server/statistics/defined.h"

namespace ropelab::statistics {

using Place = std::pair<int64_t, int64_t>;  // layer, head

struct Overlap {
  int64_t first = 0, second = 0, shared = 0;  // members; each counts once
};
Overlap OverlapOf(std::vector<Place> first, std::vector<Place> second);

// Shared members over all members. Undefined where both sets are empty.
Defined<double> Jaccard(const Overlap& overlap);

}  // namespace ropelab::statistics
