// Which entries a slash score averages over (EXPERIMENTS.md 1), and the running moments of scores.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/engine/slash_sums.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {

struct SlashScoring {
  engine::SlashRange range;
  bool definition = false;  // divide by N - offset

  // How many rows the mean at `offset` divides by, for a prompt of n tokens; 0 or less: no row counts.
  int64_t Denominator(int64_t n, int64_t offset) const {
    if (definition) return n - offset;
    return n - range.skip_first - (range.common_rows ? range.last_offset : offset);
  }
};

// INVALID_ARGUMENT: no range, a negative skip_first, COMMON with DEFINITION.
absl::StatusOr<SlashScoring> ReadScoring(const v1::SlashProfile& request);

// INVALID_ARGUMENT, naming the sample, unless every offset leaves a row to average over in every prompt.
absl::Status CheckOffsets(const SlashScoring& scoring, const std::vector<TokenIds>& prompts,
                          int64_t first_sample);

// Welford's running mean and sum of squared deviations, of many values at once.
struct SlashMoments {
  std::vector<double> mean, m2;
  // The n-th values, n from 1.
  void Add(const std::vector<double>& values, int64_t n);
};

}  // namespace ropelab::measure
