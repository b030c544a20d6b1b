// Percentile intervals by drawing again from what was measured. EXPERIMENTS.md sections 8 and 9.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/statistics/defined.h"
#include "server/statistics/permutation.h"

namespace ropelab::statistics {

inline constexpr int64_t kResamples = 10000;

struct Interval {
  double low = 0, high = 0;
  int64_t resamples = 0;  // that defined a figure, of those asked for
};

// The 2.5 % and 97.5 % quantiles (linear between values) of figures in any order, which are not empty.
Interval PercentileInterval(std::vector<double> figures);

// 95 % interval of the mean of paired differences (a[i] - b[i] of sample i), samples drawn with replacement.
// Undefined for no sample. docs/random-numbers.md, purpose 15.
Defined<Interval> BootstrapMean(std::span<const double> differences, int64_t resamples, uint64_t seed);

// 95 % interval of DifferenceOfMeans when whole layers are drawn with replacement, as many as there are.
// Draws without labelled heads, or without others, are left out. Undefined where no draw has both.
Defined<Interval> BootstrapDifferenceOfMeans(std::span<const LabelledHead> heads, int64_t resamples,
                                             uint64_t seed);

}  // namespace ropelab::statistics
