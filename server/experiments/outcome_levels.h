// Needle samples taken together: all of one model and seed, those of a context length, those of a cell.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ropelab/v1/measurement.pb.h"
#include "server/experiments/outcome_readings.h"

namespace ropelab::experiments {

struct OutcomeLevel {
  std::optional<int64_t> context_length;  // empty: of all
  std::optional<double> depth;            // empty: of all
  std::vector<size_t> samples;            // places among the kept ones, ascending; never empty

  bool whole() const { return !context_length.has_value(); }
};

// All samples first, then each context length with its depths behind it, ascending.
std::vector<OutcomeLevel> LevelsOf(const std::vector<v1::NeedleSample>& samples);

// The share of the level's samples that were answered rightly.
double AccuracyOf(const OutcomeAnswers& answers, size_t condition, const OutcomeLevel& level);

}  // namespace ropelab::experiments
