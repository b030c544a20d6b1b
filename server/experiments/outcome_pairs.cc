#include "server/experiments/outcome_pairs.h"

#include <algorithm>
#include <optional>

#include "server/statistics/mcnemar.h"

namespace ropelab::experiments {
namespace {

int64_t CorrectOf(const OutcomeAnswers& answers, size_t condition, const OutcomeLevel& level) {
  return std::count_if(level.samples.begin(), level.samples.end(),
                       [&](size_t sample) { return answers.Correct(condition, sample); });
}

// What the controls of a point stand for.
bool IsMain(const OutcomeCondition& line) {
  return line.name == "knockout" || line.name == "lowest_frequency";
}

}  // namespace

statistics::Interval OutcomePairs::IntervalOf(const std::vector<int8_t>& differences) {
  const uint64_t seed = static_cast<uint64_t>(group_.seed);
  if (differences.size() > statistics::SignBootstrap::kMostSamples) {
    const std::vector<double> wide(differences.begin(), differences.end());
    return *statistics::BootstrapMean(wide, statistics::kResamples, seed);
  }
  const auto draws = draws_.try_emplace(differences.size(), differences.size(), statistics::kResamples, seed);
  return draws.first->second.Of(differences);
}

PairedComparison OutcomePairs::Of(const OutcomeCondition& first, const OutcomeCondition& second,
                                  const OutcomeLevel& level) {
  std::vector<int8_t> differences;
  PairedComparison result;
  for (const size_t sample : level.samples) {
    const bool a = group_.answers.Correct(first.measured, sample);
    const bool b = group_.answers.Correct(second.measured, sample);
    result.only_first += a && !b ? 1 : 0;
    result.only_second += b && !a ? 1 : 0;
    differences.push_back(static_cast<int8_t>((a ? 1 : 0) - (b ? 1 : 0)));
  }
  if (const auto known = known_.find(differences); known != known_.end()) {
    return known->second;
  }
  result.samples = static_cast<int64_t>(differences.size());
  result.difference =
      static_cast<double>(result.only_first - result.only_second) / static_cast<double>(result.samples);
  result.p = statistics::McNemarExact(result.only_first, result.only_second);
  result.low = result.high = result.difference;
  const auto [least, most] = std::minmax_element(differences.begin(), differences.end());
  if (*least != *most) {  // else every draw has the same mean
    const statistics::Interval interval = IntervalOf(differences);
    result.low = interval.low;
    result.high = interval.high;
  }
  known_.emplace(std::move(differences), result);
  return result;
}

bool OutcomePairs::AtCeiling(const OutcomePoint& point, const OutcomeLevel& level) const {
  const int64_t baseline = CorrectOf(group_.answers, 0, level);
  const int64_t samples = static_cast<int64_t>(level.samples.size());
  return 100 * baseline >= 99 * samples &&
         std::all_of(group_.conditions.list.begin() + 1, group_.conditions.list.end(),
                     [&](const OutcomeCondition& line) {
                       return !(line.point == point) ||
                              CorrectOf(group_.answers, line.measured, level) == baseline;
                     });
}

std::vector<OutcomePair> PairsOf(const OutcomeConditions& conditions) {
  const std::vector<OutcomeCondition>& list = conditions.list;
  std::vector<OutcomePair> pairs;
  const OutcomeCondition* main = nullptr;  // of the point at hand; it comes first of its point
  for (size_t i = 1; i < list.size(); ++i) {
    const OutcomeCondition& line = list[i];
    pairs.push_back({&line, &list[0]});
    if (main != nullptr && !(main->point == line.point)) {
      main = nullptr;
    }
    if (IsMain(line)) {
      main = &line;
    } else if (main != nullptr && !line.control.empty()) {
      pairs.push_back({&line, main});
    } else if (main != nullptr && (line.name == "highest_frequency" || line.name == "random_dims")) {
      pairs.push_back({main, &line});
    }
  }
  return pairs;
}

TableBuilder ComparisonsTable() {
  return TableBuilder("comparisons", WithLeadingColumns({{"condition", v1::Column::TEXT, true},
                                                         {"against", v1::Column::TEXT, true},
                                                         {"detector", v1::Column::TEXT, true},
                                                         {"control", v1::Column::TEXT, true},
                                                         {"draw", v1::Column::INTEGER, true},
                                                         {"dose", v1::Column::REAL, true},
                                                         {"coverage", v1::Column::REAL, true},
                                                         {"layer", v1::Column::INTEGER, true},
                                                         {"head", v1::Column::INTEGER, true},
                                                         {"context_length", v1::Column::INTEGER, true},
                                                         {"depth", v1::Column::REAL, true},
                                                         {"seed", v1::Column::INTEGER, true},
                                                         {"difference", v1::Column::REAL, false},
                                                         {"low", v1::Column::REAL, false},
                                                         {"high", v1::Column::REAL, false},
                                                         {"p", v1::Column::REAL, false},
                                                         {"only_condition", v1::Column::INTEGER, false},
                                                         {"only_against", v1::Column::INTEGER, false},
                                                         {"samples", v1::Column::INTEGER, false},
                                                         {"at_ceiling", v1::Column::BOOLEAN, false}}));
}

void AddComparisonRows(const OutcomeGroup& group, const std::string& numerics_class, OutcomePairs& pairs,
                       TableBuilder& comparisons) {
  const std::vector<OutcomePair> all = PairsOf(group.conditions);
  for (const OutcomeLevel& level : LevelsOf(group.answers.samples())) {
    if (level.depth.has_value()) {
      continue;
    }
    const OutcomePoint* last = nullptr;  // pairs come point by point
    bool at_ceiling = false;
    for (const OutcomePair& pair : all) {
      // What is drawn, if either is.
      const OutcomeCondition& drawn = pair.second->draw.has_value() ? *pair.second : *pair.first;
      const OutcomePoint& point = pair.first->point;
      if (last == nullptr || !(*last == point)) {
        at_ceiling = pairs.AtCeiling(point, level);
        last = &point;
      }
      const PairedComparison found = pairs.Of(*pair.first, *pair.second, level);
      comparisons.Text(group.label).Text(group.dtype).Text(numerics_class);
      comparisons.Text(pair.first->name).Text(pair.second->name).Text(group.conditions.detector);
      comparisons.Text(drawn.control.empty() ? std::nullopt : std::optional<std::string>(drawn.control));
      comparisons.Integer(drawn.draw).Real(point.dose).Real(point.coverage);
      comparisons.Integer(point.layer).Integer(point.head);
      comparisons.Integer(level.context_length).Real(std::nullopt).Integer(group.seed);
      comparisons.Real(found.difference).Real(found.low).Real(found.high).Real(found.p);
      comparisons.Integer(found.only_first).Integer(found.only_second).Integer(found.samples);
      comparisons.Boolean(at_ceiling);
    }
  }
}

}  // namespace ropelab::experiments
