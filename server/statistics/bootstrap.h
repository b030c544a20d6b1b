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

// BootstrapMean of many vectors of differences of as many samples and with one seed, to the last bit the
// same: what is drawn is drawn once, and a vector costs what its non-zero differences cost. It holds two
// bytes per sample and draw.
class SignBootstrap {
 public:
  static constexpr size_t kMostSamples = 4096;
  // 1 <= samples <= kMostSamples.
  SignBootstrap(size_t samples, int64_t resamples, uint64_t seed);
  // One difference per sample: -1, 0 or 1.
  Interval Of(std::span<const int8_t> differences) const;

 private:
  size_t samples_, resamples_;
  std::vector<uint16_t> times_;  // [sample][draw] that the draw holds the sample
};

// 95 % interval of DifferenceOfMeans when whole layers are drawn with replacement, as many as there are.
// Draws without labelled heads, or without others, are left out. Undefined where no draw has both.
Defined<Interval> BootstrapDifferenceOfMeans(std::span<const LabelledHead> heads, int64_t resamples,
                                             uint64_t seed);

}  // namespace ropelab::statistics
