#include "server/experiments/outcome_levels.h"

#include <map>
#include <utility>

namespace ropelab::experiments {

std::vector<OutcomeLevel> LevelsOf(const std::vector<v1::NeedleSample>& samples) {
  OutcomeLevel all;
  std::map<int64_t, std::map<double, std::vector<size_t>>> cells;
  for (size_t i = 0; i < samples.size(); ++i) {
    all.samples.push_back(i);
    cells[samples[i].context_length()][samples[i].depth()].push_back(i);
  }
  std::vector<OutcomeLevel> levels;
  levels.push_back(std::move(all));
  for (const auto& [context_length, depths] : cells) {
    const size_t of_length = levels.size();
    levels.push_back({context_length, std::nullopt, {}});
    for (const auto& [depth, places] : depths) {
      levels.push_back({context_length, depth, places});
      // Samples stand cell by cell, so these are ascending too.
      levels[of_length].samples.insert(levels[of_length].samples.end(), places.begin(), places.end());
    }
  }
  return levels;
}

double AccuracyOf(const OutcomeAnswers& answers, size_t condition, const OutcomeLevel& level) {
  int64_t correct = 0;
  for (const size_t sample : level.samples) {
    correct += answers.Correct(condition, sample) ? 1 : 0;
  }
  return static_cast<double>(correct) / static_cast<double>(level.samples.size());
}

}  // namespace ropelab::experiments
