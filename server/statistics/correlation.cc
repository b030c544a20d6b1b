#include "server/statistics/correlation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "common/philox.h"

namespace ropelab::statistics {
namespace {

constexpr double kTie = 1e-12;

std::vector<size_t> OrderOf(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  return order;
}

// Runs of values that count as equal, in their order: every value of a run is within `tie` of its first.
std::vector<std::vector<size_t>> TiedRuns(std::span<const double> values, double tie) {
  std::vector<std::vector<size_t>> runs;
  for (const size_t i : OrderOf(values)) {
    if (runs.empty() || values[i] - values[runs.back().front()] > tie) {
      runs.emplace_back();
    }
    runs.back().push_back(i);
  }
  return runs;
}

// Average ranks where value i stands there weights[i] times.
std::vector<double> WeightedRanks(const std::vector<std::vector<size_t>>& runs,
                                  std::span<const double> weights) {
  std::vector<double> ranks(weights.size());
  double before = 0;
  for (const std::vector<size_t>& run : runs) {
    double here = 0;
    for (const size_t i : run) {
      here += weights[i];
    }
    for (const size_t i : run) {
      ranks[i] = before + (here + 1) / 2;
    }
    before += here;
  }
  return ranks;
}

// Pearson where pair i stands there weights[i] times.
Defined<double> WeightedPearson(std::span<const double> x, std::span<const double> y,
                                std::span<const double> weights, double least_spread) {
  double n = 0, mean_x = 0, mean_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    n += weights[i];
    mean_x += weights[i] * x[i];
    mean_y += weights[i] * y[i];
  }
  if (!(n >= 2)) {
    return Undefined{"there are fewer than two pairs"};
  }
  mean_x /= n;
  mean_y /= n;
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double u = x[i] - mean_x, v = y[i] - mean_y;
    xx += weights[i] * u * u;
    yy += weights[i] * v * v;
    xy += weights[i] * u * v;
  }
  const double least = least_spread * least_spread * n;
  if (!(xx > least) || !(yy > least)) {
    return Undefined{"one of the two does not vary"};
  }
  return std::clamp(xy / std::sqrt(xx) / std::sqrt(yy), -1.0, 1.0);
}

bool Varies(std::span<const double> values) {
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  return *largest > *least;
}

double LargestOf(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// Pairs split into columns, with their layers numbered from 0 in ascending order.
class Layered {
 public:
  Layered(std::span<const LayeredPair> pairs, PartialOrder order) : order_(order) {
    std::map<int64_t, size_t> numbers;
    for (const LayeredPair& pair : pairs) {
      numbers[pair.layer] = 0;
    }
    size_t next = 0;
    for (auto& [layer, number] : numbers) {
      number = next++;
    }
    sizes_.assign(next, 0);
    for (const LayeredPair& pair : pairs) {
      layers_.push_back(numbers[pair.layer]);
      sizes_[layers_.back()] += 1;
      x_.push_back(pair.x);
      y_.push_back(pair.y);
    }
    double tie_x = 0, tie_y = 0;
    if (order == PartialOrder::kDemeanFirst) {
      tie_x = kTie * LargestOf(x_);
      tie_y = kTie * LargestOf(y_);
      Demean(x_);
      Demean(y_);
    }
    runs_x_ = TiedRuns(x_, tie_x);
    runs_y_ = TiedRuns(y_, tie_y);
  }

  size_t layers() const { return sizes_.size(); }

  // The correlation where every layer stands there `times` times, each copy with a mean of its own, which is
  // the layer's.
  Defined<double> Correlation(std::span<const double> times) const {
    std::vector<double> weights(x_.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = times[layers_[i]];
    }
    std::vector<double> x = WeightedRanks(runs_x_, weights), y = WeightedRanks(runs_y_, weights);
    if (order_ == PartialOrder::kRankFirst) {
      Demean(x);
      Demean(y);
    }
    // Ranks are multiples of 1/2 and as large as the pairs are many: what demeaning leaves of equal ones is
    // rounding.
    return WeightedPearson(x, y, weights, kTie * static_cast<double>(x.size() * layers()));
  }

 private:
  void Demean(std::vector<double>& values) const {
    std::vector<double> means(sizes_.size());
    for (size_t i = 0; i < values.size(); ++i) {
      means[layers_[i]] += values[i];
    }
    for (size_t layer = 0; layer < means.size(); ++layer) {
      means[layer] /= sizes_[layer];
    }
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] -= means[layers_[i]];
    }
  }

  PartialOrder order_;
  std::vector<size_t> layers_;
  std::vector<double> sizes_, x_, y_;
  std::vector<std::vector<size_t>> runs_x_, runs_y_;
};

}  // namespace

std::vector<double> AverageRanks(std::span<const double> values) {
  const std::vector<double> once(values.size(), 1.0);
  return WeightedRanks(TiedRuns(values, 0), once);
}

Defined<double> Pearson(std::span<const double> x, std::span<const double> y) {
  // Asked of the values: their mean may be rounded, and then equal ones seem to vary.
  if (x.size() >= 2 && (!Varies(x) || !Varies(y))) {
    return Undefined{"one of the two does not vary"};
  }
  const std::vector<double> once(x.size(), 1.0);
  return WeightedPearson(x, y, once, 0);
}

Defined<double> Spearman(std::span<const double> x, std::span<const double> y) {
  const std::vector<double> ranks_x = AverageRanks(x), ranks_y = AverageRanks(y);
  return Pearson(ranks_x, ranks_y);
}

Defined<double> PartialSpearman(std::span<const LayeredPair> pairs, PartialOrder order) {
  const Layered layered(pairs, order);
  const std::vector<double> once(layered.layers(), 1.0);
  const Defined<double> correlation = layered.Correlation(once);
  if (!correlation.has_value() && pairs.size() >= 2) {
    return Undefined{"one of the two does not vary within the layers"};
  }
  return correlation;
}

Defined<Interval> BootstrapPartialSpearman(std::span<const LayeredPair> pairs, PartialOrder order,
                                           int64_t resamples, uint64_t seed) {
  const Layered layered(pairs, order);
  if (layered.layers() < 2) {
    return Undefined{"there are fewer than two layers to draw from"};
  }
  std::vector<double> correlations;
  for (int64_t draw = 0; draw < resamples; ++draw) {
    Philox philox(seed, Purpose::kBootstrap, static_cast<uint64_t>(draw));
    std::vector<double> times(layered.layers(), 0.0);
    for (size_t i = 0; i < times.size(); ++i) {
      times[philox.Integer(times.size())] += 1;
    }
    const Defined<double> correlation = layered.Correlation(times);
    if (correlation.has_value()) {
      correlations.push_back(*correlation);
    }
  }
  if (correlations.empty()) {
    return Undefined{"no draw of layers defines a correlation"};
  }
  return PercentileInterval(std::move(correlations));
}

}  // namespace ropelab::statistics
