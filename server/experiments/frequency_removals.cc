#include "server/experiments/frequency_removals.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace ropelab::experiments {
namespace {

// The slash paper removes six of a band of the 64 pairs of its models' heads.
constexpr int64_t kPerBand = 6, kPaperPairs = 64;

void AddRemoval(std::string band, std::vector<int32_t> pairs, RemovalPlan& plan) {
  const auto found = std::find(plan.lists.begin(), plan.lists.end(), pairs);
  const size_t list = static_cast<size_t>(found - plan.lists.begin());
  if (found == plan.lists.end()) {
    plan.lists.push_back(pairs);
  }
  plan.removals.push_back({std::move(band), std::move(pairs), list});
}

}  // namespace

std::vector<FrequencyBand> BandsOf(int64_t pairs) {
  const int64_t third = pairs / 3, two_thirds = 2 * pairs / 3;
  return {{"high", 1, third}, {"medium", third + 1, two_thirds}, {"low", two_thirds + 1, pairs}};
}

std::vector<int32_t> PairsOfBand(const FrequencyBand& band, int64_t pairs, v1::PerBand::Value per_band) {
  int64_t count = kPerBand;
  if (per_band == v1::PerBand::PROPORTIONAL) {
    // floor(6n/64 + 1/2) in whole numbers.
    count = std::max<int64_t>(1, (2 * kPerBand * pairs + kPaperPairs) / (2 * kPaperPairs));
  }
  std::vector<int32_t> removed;
  if (band.size() <= count) {
    for (int64_t pair = band.first; pair <= band.last; ++pair) {
      removed.push_back(static_cast<int32_t>(pair));
    }
    return removed;
  }
  const int64_t steps = std::max<int64_t>(1, count - 1), width = band.last - band.first;
  for (int64_t t = 0; t < count; ++t) {
    removed.push_back(static_cast<int32_t>(band.first + (2 * t * width + steps) / (2 * steps)));
  }
  return removed;
}

std::string RemovedText(const std::vector<int32_t>& pairs) {
  return absl::StrJoin(pairs, " ");
}

RemovalPlan RemovalsOf(const v1::FrequencyAnalysis& analysis, int64_t pairs) {
  RemovalPlan plan;
  if (analysis.removals().empty()) {
    return plan;
  }
  plan.lists.emplace_back();
  for (const v1::Removal& removal : analysis.removals()) {
    for (const FrequencyBand& band : removal.bands() ? BandsOf(pairs) : std::vector<FrequencyBand>()) {
      std::vector<int32_t> removed = PairsOfBand(band, pairs, removal.per_band());
      plan.bands.push_back({band, static_cast<int64_t>(removed.size())});
      if (!removed.empty()) {
        AddRemoval(band.name, std::move(removed), plan);
      }
    }
    for (int64_t pair = 1; removal.each_pair() && pair <= pairs; ++pair) {
      AddRemoval("pair", {static_cast<int32_t>(pair)}, plan);
    }
    if (!removal.pairs().empty()) {
      AddRemoval("list", {removal.pairs().begin(), removal.pairs().end()}, plan);
    }
  }
  return plan;
}

}  // namespace ropelab::experiments
