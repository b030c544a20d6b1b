#include "server/experiments/utility_summary.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/statistics/multiple.h"
#include "server/statistics/spread.h"

namespace ropelab::experiments {
namespace {

auto PlaceOf(const StatisticsPlace& place) {
  return std::make_tuple(place.checkpoint, place.detector, place.threshold);
}

struct Summary {
  StatisticsPlace place;
  std::string name, because;
  std::vector<double> values, ps;
};

PlacedStatistic MeanOf(const Summary& summary) {
  PlacedStatistic mean = {summary.place, summary.name, {}};
  mean.row.n = static_cast<int64_t>(summary.values.size());
  if (summary.values.empty()) {
    mean.row.because = summary.because;
    return mean;
  }
  mean.row.value = statistics::SpreadOf(summary.values).mean;
  if (summary.ps.size() == summary.values.size()) {
    mean.row.p = statistics::SpreadOf(summary.ps).mean;
  }
  return mean;
}

PlacedStatistic SdOf(const Summary& summary, const PlacedStatistic& mean) {
  PlacedStatistic sd = {summary.place, summary.name + "_sd", {}};
  sd.row.n = mean.row.n;
  if (summary.values.size() < 2) {
    sd.row.because = summary.values.empty() ? summary.because : "one seed alone defines it";
    return sd;
  }
  sd.row.value = statistics::SpreadOf(summary.values).sd;
  return sd;
}

}  // namespace

void AddSeedSummaries(std::vector<PlacedStatistic>& statistics) {
  using Key = std::tuple<std::string, std::string, std::string, decltype(PlaceOf(StatisticsPlace()))>;
  std::map<Key, Summary> summaries;
  std::set<std::optional<int64_t>> seeds;
  for (const PlacedStatistic& one : statistics) {
    seeds.insert(one.place.seed);
    Summary& summary = summaries[{one.place.model, one.place.dtype, one.name, PlaceOf(one.place)}];
    summary.place = one.place;
    summary.place.seed = std::nullopt;
    summary.name = one.name;
    if (one.row.value.has_value()) {
      summary.values.push_back(*one.row.value);
      if (one.row.p.has_value()) {
        summary.ps.push_back(*one.row.p);
      }
    } else if (summary.because.empty()) {
      summary.because = one.row.because;
    }
  }
  if (seeds.size() < 2) {
    return;
  }
  for (const auto& [key, summary] : summaries) {
    const PlacedStatistic mean = MeanOf(summary);
    statistics.push_back(mean);
    statistics.push_back(SdOf(summary, mean));
  }
}

void AddFalseDiscovery(std::vector<PlacedStatistic>& statistics) {
  std::map<std::pair<decltype(PlaceOf(StatisticsPlace())), std::optional<int64_t>>,
           std::vector<PlacedStatistic>>
      families;
  for (const PlacedStatistic& one : statistics) {
    if (one.name == "p_centred") {
      families[{PlaceOf(one.place), one.place.seed}].push_back(one);
    }
  }
  for (auto& [place, family] : families) {
    std::vector<double> ps;
    for (const PlacedStatistic& one : family) {
      if (one.row.value.has_value()) {
        ps.push_back(*one.row.value);
      }
    }
    const std::vector<double> adjusted = statistics::BenjaminiHochberg(ps);
    size_t next = 0;
    for (PlacedStatistic& one : family) {
      one.name = "p_bh";
      one.row.n = static_cast<int64_t>(ps.size());
      if (one.row.value.has_value()) {
        one.row.value = one.row.p = adjusted[next++];
      }
      statistics.push_back(one);
    }
  }
}

}  // namespace ropelab::experiments
