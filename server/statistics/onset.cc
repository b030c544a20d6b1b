#include "server/statistics/onset.h"

#include <algorithm>

#include "server/statistics/quantiles.h"

namespace ropelab::statistics {
namespace {

constexpr size_t kLeastCounts = 5;

Onset BetweenLevels(double low, double high) {
  return {0, low, high, low + (high - low) / 2};
}

}  // namespace

std::vector<double> RunningMedian(std::span<const double> values, int64_t window) {
  const size_t width = static_cast<size_t>(window);
  if (values.size() < width) {
    return {values.begin(), values.end()};
  }
  const size_t half = width / 2, last = values.size() - width;
  std::vector<double> medians;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t first = std::min(i < half ? 0 : i - half, last);
    medians.push_back(Median(values.subspan(first, width)));
  }
  return medians;
}

Defined<Onset> SmoothedOnset(std::span<const double> counts, int64_t window) {
  if (counts.size() < std::max(kLeastCounts, static_cast<size_t>(window))) {
    return Undefined{
        "there are fewer checkpoints than the onset needs, five and no fewer than the smoothing "
        "window"};
  }
  const std::vector<double> smoothed = RunningMedian(counts, window);
  const std::span<const double> all(smoothed);
  const size_t quarter = counts.size() / 4;
  Onset onset = BetweenLevels(Median(all.first(quarter)), Median(all.last(quarter)));
  if (!(onset.high > onset.low)) {
    return Undefined{"the smoothed count is no higher at the end than at the start"};
  }
  size_t index = smoothed.size();
  while (index > 0 && smoothed[index - 1] > onset.midpoint) {
    --index;
  }
  if (index == smoothed.size()) {
    return Undefined{"the smoothed count ends at or below the midpoint"};
  }
  onset.index = static_cast<int64_t>(index);
  return onset;
}

Defined<Onset> PaperOnset(std::span<const double> counts) {
  if (counts.empty()) {
    return Undefined{"there is no checkpoint"};
  }
  const size_t fifth = std::max<size_t>(1, counts.size() / 5);
  Onset onset = BetweenLevels(Median(counts.first(fifth)), *std::max_element(counts.begin(), counts.end()));
  if (!(onset.high > onset.low)) {
    return Undefined{"no count exceeds the median of the first ones"};
  }
  const auto first =
      std::find_if(counts.begin(), counts.end(), [&](double count) { return count >= onset.midpoint; });
  onset.index = first - counts.begin();
  return onset;
}

}  // namespace ropelab::statistics
