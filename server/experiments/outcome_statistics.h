// The table `statistics` of the kinds that outcome_fields.h names; docs/experiments/patch.md lists its names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "server/experiments/outcome_fields.h"
#include "server/experiments/outcome_pairs.h"
#include "server/experiments/table_builder.h"

namespace ropelab::experiments {

class OutcomeStatistics {
 public:
  OutcomeStatistics(const OutcomeFields& fields, std::string numerics_class)
      : fields_(fields), numerics_class_(std::move(numerics_class)), table_(StatisticsTable()) {}

  // Groups come sorted by (label, dtype, seed).
  void Add(const OutcomeGroup& group, OutcomePairs& pairs);
  // Means over the seeds included.
  Table Finish();

 private:
  // One row beside model, dtype, class and seed.
  struct Figure {
    std::string name;
    std::optional<double> value = {}, low = {}, high = {}, p = {};
    std::optional<int64_t> n = {};
    std::string because = {};  // where there is no value
    bool over_seeds = false;   // its mean over the seeds is a figure too
  };
  // Where a figure belongs: a point and some samples.
  struct Place {
    const OutcomeGroup& group;
    OutcomePairs& pairs;
    const OutcomePoint& point;
    const OutcomeLevel& level;
  };
  // The lines of a point that one name has, by draw.
  using Lines = std::vector<const OutcomeCondition*>;
  static Lines LinesOf(const Place& place, const std::string& name);
  static const OutcomeCondition* LineOf(const Place& place, const std::string& name);
  static const OutcomeCondition& Baseline(const Place& place) { return place.group.conditions.list.front(); }

  static std::vector<NamedHead> HeadsOf(const Place& place);
  static std::set<std::pair<int64_t, int64_t>> KeysOf(const Place& place);

  void AddPlace(const Place& place);
  void AddEffects(const Place& place, const OutcomeCondition& main);
  void AddGap(const Place& place, const OutcomeCondition& main, const std::string& control,
              const std::string& suffix);
  void AddDraws(const Place& place, const std::string& name);
  void AddWorstDraw(const Place& place, const Lines& draws, const std::string& control);
  void AddEditedKeys(const Place& place);
  void AddSharedGroups(const Place& place, const Lines& draws, const std::string& control);
  void AddSpecificity(const Place& place, const OutcomeCondition& main);
  void Put(const Place& place, Figure figure);
  void PutRow(const OutcomeGroup& group, const std::optional<double>& threshold, std::optional<int64_t> seed,
              const Figure& figure);

  const OutcomeFields& fields_;
  const std::string numerics_class_;
  TableBuilder table_;
  // Values of the seeds, by label, dtype, name, detector and threshold.
  using SeedKey =
      std::tuple<std::string, std::string, std::string, std::optional<std::string>, std::optional<double>>;
  std::map<SeedKey, std::vector<double>> over_seeds_;
};

}  // namespace ropelab::experiments
