// Correlations: of values, of ranks, and of ranks within layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/statistics/bootstrap.h"
#include "server/statistics/defined.h"

namespace ropelab::statistics {

// Ranks from 1; equal values share the mean of their ranks.
std::vector<double> AverageRanks(std::span<const double> values);

// Of pairs (x[i], y[i]); both spans have the same size. Undefined for fewer than two pairs, or where x or y
// has no spread.
Defined<double> Pearson(std::span<const double> x, std::span<const double> y);
// Pearson of the average ranks.
Defined<double> Spearman(std::span<const double> x, std::span<const double> y);

struct LayeredPair {
  int64_t layer = 0;
  double x = 0, y = 0;
};
enum class PartialOrder {
  kDemeanFirst,  // each layer's mean is taken out of x and y, what is left is ranked over all layers
  kRankFirst,    // x and y are ranked over all layers, and each layer's mean rank is taken out
};
// Pearson of the result: the rank correlation of x and y with the layer held fixed. EXPERIMENTS.md section 8.
// Values from which a mean was taken are tied where they differ by no more than 1e-12 of the largest
// |value|: rounding must not break a tie. Undefined as Pearson, which here also says that nothing varies
// within a layer.
Defined<double> PartialSpearman(std::span<const LayeredPair> pairs, PartialOrder order);

inline constexpr int64_t kLayerResamples = 5000;
// The percentile 95 % interval of PartialSpearman when whole layers are drawn with replacement, as many as
// there are; a layer that is drawn twice is two layers. Draws that define no correlation are left out, and
// Interval says how many were used. Undefined for fewer than two layers or where no draw defines one.
// docs/random-numbers.md, purpose 15.
Defined<Interval> BootstrapPartialSpearman(std::span<const LayeredPair> pairs, PartialOrder order,
                                           int64_t resamples, uint64_t seed);

}  // namespace ropelab::statistics
