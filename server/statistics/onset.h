// At which checkpoint of a training run a count rises for good. EXPERIMENTS.md section 10.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/statistics/defined.h"

namespace ropelab::statistics {

// The centred median of `window` (odd, > 0) values; where the window does not fit, the nearest one that does.
// The values as they are where there are fewer than `window`.
std::vector<double> RunningMedian(std::span<const double> values, int64_t window);

struct Onset {
  int64_t index = 0;  // from 0
  double low = 0, high = 0, midpoint = 0;
};
// Of the running median: low and high are the medians of its first and last quarter (floor(n/4) points), and
// the onset is the first index from which it stays strictly above their midpoint. Undefined for fewer than
// five counts or fewer than `window`, where high does not exceed low, and where the end lies at or below the
// midpoint.
Defined<Onset> SmoothedOnset(std::span<const double> counts, int64_t window);
// As the retrieval paper does: the first count at or above the midpoint of low, the median of the first
// floor(n/5) counts (at least one), and high, the largest. Undefined for no counts and where high does not
// exceed low.
Defined<Onset> PaperOnset(std::span<const double> counts);

}  // namespace ropelab::statistics
