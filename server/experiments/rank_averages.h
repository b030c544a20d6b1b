// Averages of a rank analysis over its dominant heads and over all of them, as rows of `statistics`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "server/experiments/rank_readings.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {

// A row of `statistics` for one model and seed. `because` is read where `value` is empty.
struct RankStatistic {
  std::string name;
  std::optional<double> value, low, high;
  int64_t n = 0;
  std::string because;
};
void AddRankStatistic(const RankGroup& group, const std::string& numerics_class,
                      const RankStatistic& statistic, TableBuilder& statistics);

// Of one model and seed. Values are added in the order of their sums: layer by layer, head by head.
class RankAverages {
 public:
  // An empty value is not averaged.
  void Add(const std::string& name, std::optional<double> value, bool dominant);

  // mean_<name>_dominant and mean_<name>_all; n: the values that were averaged. Without any, the reason.
  void Write(const RankGroup& group, const std::string& numerics_class, TableBuilder& statistics) const;

 private:
  struct Average {
    double sum = 0;
    int64_t n = 0, seen = 0;
  };
  struct Both {
    Average dominant, all;
  };
  static RankStatistic Mean(const RankGroup& group, const std::string& name, const Average& average);

  std::map<std::string, Both> both_;
};

}  // namespace ropelab::experiments
