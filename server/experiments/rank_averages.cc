#include "server/experiments/rank_averages.h"

#include "absl/strings/str_cat.h"

namespace ropelab::experiments {

void AddRankStatistic(const RankGroup& group, const std::string& numerics_class,
                      const RankStatistic& statistic, TableBuilder& statistics) {
  statistics.Text(group.label).Text(group.dtype).Text(numerics_class).Text(statistic.name);
  statistics.Text(std::nullopt).Text(std::nullopt).Real(std::nullopt).Integer(group.seed);
  statistics.Real(statistic.value).Real(statistic.low).Real(statistic.high).Real(std::nullopt);
  statistics.Integer(statistic.n);
  statistics.Text(statistic.value.has_value() ? std::nullopt : std::optional<std::string>(statistic.because));
}

void RankAverages::Add(const std::string& name, std::optional<double> value, bool dominant) {
  Both& both = both_[name];
  for (Average* average : {&both.all, dominant ? &both.dominant : nullptr}) {
    if (average == nullptr) {
      continue;
    }
    ++average->seen;
    if (value.has_value()) {
      average->sum += *value;
      ++average->n;
    }
  }
}

RankStatistic RankAverages::Mean(const RankGroup& group, const std::string& name, const Average& average) {
  RankStatistic statistic;
  statistic.name = name;
  statistic.n = average.n;
  if (average.n > 0) {
    statistic.value = average.sum / static_cast<double>(average.n);
  } else if (average.seen > 0) {
    statistic.because = "is undefined on each of them: a matrix of zeros, or a mean of zero";
  } else if (group.dominant.empty()) {
    statistic.because = "the set of heads is empty";
  } else {
    statistic.because = "no head of the set is in layer 0";  // only figures of that layer can lack heads
  }
  return statistic;
}

void RankAverages::Write(const RankGroup& group, const std::string& numerics_class,
                         TableBuilder& statistics) const {
  for (const auto& [name, both] : both_) {
    const std::string mean = absl::StrCat("mean_", name);
    AddRankStatistic(group, numerics_class, Mean(group, absl::StrCat(mean, "_dominant"), both.dominant),
                     statistics);
    AddRankStatistic(group, numerics_class, Mean(group, absl::StrCat(mean, "_all"), both.all), statistics);
  }
}

}  // namespace ropelab::experiments
