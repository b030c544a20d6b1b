#include "server/statistics/bootstrap.h"

#include <algorithm>
#include <map>

#include "common/philox.h"
#include "server/statistics/quantiles.h"

namespace ropelab::statistics {

Interval PercentileInterval(std::vector<double> figures) {
  std::sort(figures.begin(), figures.end());
  return {Quantile(figures, 0.025), Quantile(figures, 0.975), static_cast<int64_t>(figures.size())};
}

Defined<Interval> BootstrapMean(std::span<const double> differences, int64_t resamples, uint64_t seed) {
  if (differences.empty()) {
    return Undefined{"there is no pair to draw from"};
  }
  const uint64_t n = differences.size();
  std::vector<double> means;
  for (int64_t draw = 0; draw < resamples; ++draw) {
    Philox philox(seed, Purpose::kBootstrap, static_cast<uint64_t>(draw));
    double sum = 0;
    for (uint64_t i = 0; i < n; ++i) {
      sum += differences[philox.Integer(n)];
    }
    means.push_back(sum / static_cast<double>(n));
  }
  return PercentileInterval(std::move(means));
}

SignBootstrap::SignBootstrap(size_t samples, int64_t resamples, uint64_t seed)
    : samples_(samples), resamples_(static_cast<size_t>(resamples)), times_(samples_ * resamples_) {
  for (size_t draw = 0; draw < resamples_; ++draw) {
    Philox philox(seed, Purpose::kBootstrap, draw);
    for (size_t i = 0; i < samples_; ++i) {
      ++times_[philox.Integer(samples_) * resamples_ + draw];
    }
  }
}

Interval SignBootstrap::Of(std::span<const int8_t> differences) const {
  std::vector<int32_t> sums(resamples_, 0);  // whole numbers, so their order moves nothing
  for (size_t sample = 0; sample < samples_; ++sample) {
    const int32_t difference = differences[sample];
    const uint16_t* const times = times_.data() + sample * resamples_;
    for (size_t draw = 0; difference != 0 && draw < resamples_; ++draw) {
      sums[draw] += difference * times[draw];
    }
  }
  std::vector<double> means;
  means.reserve(resamples_);
  for (const int32_t sum : sums) {
    means.push_back(static_cast<double>(sum) / static_cast<double>(samples_));
  }
  return PercentileInterval(std::move(means));
}

Defined<Interval> BootstrapDifferenceOfMeans(std::span<const LabelledHead> heads, int64_t resamples,
                                             uint64_t seed) {
  struct Layer {
    double sums[2] = {0, 0};
    int64_t counts[2] = {0, 0};
  };
  std::map<int64_t, Layer> by_number;
  for (const LabelledHead& head : heads) {
    by_number[head.layer].sums[head.labelled ? 1 : 0] += head.value;
    by_number[head.layer].counts[head.labelled ? 1 : 0] += 1;
  }
  std::vector<Layer> layers;
  for (const auto& [number, layer] : by_number) {
    layers.push_back(layer);
  }
  std::vector<double> differences;
  for (int64_t draw = 0; draw < resamples && !layers.empty(); ++draw) {
    Philox philox(seed, Purpose::kBootstrap, static_cast<uint64_t>(draw));
    Layer drawn;
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[philox.Integer(layers.size())];
      for (int label = 0; label < 2; ++label) {
        drawn.sums[label] += layer.sums[label];
        drawn.counts[label] += layer.counts[label];
      }
    }
    if (drawn.counts[0] > 0 && drawn.counts[1] > 0) {
      differences.push_back(drawn.sums[1] / static_cast<double>(drawn.counts[1]) -
                            drawn.sums[0] / static_cast<double>(drawn.counts[0]));
    }
  }
  if (differences.empty()) {
    return Undefined{"no draw of layers holds both labelled heads and others"};
  }
  return PercentileInterval(std::move(differences));
}

}  // namespace ropelab::statistics
