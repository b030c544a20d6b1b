// What a FrequencyProfile adds up for one head, prompt after prompt, and says at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/engine/frequency_vectors.h"
#include "worker/measure/frequency_request.h"
#include "worker/measure/measurement.h"

namespace ropelab::measure {

// The longest row of a heat map whose pair fits a reading of 1 MiB.
inline constexpr int64_t kLongestHeatRow = 130000;

class FrequencySums {
 public:
  // The request outlives this. `place`: of the head in the request.
  FrequencySums(const v1::FrequencyProfile& request, int place, int64_t head_dim);

  // Adds one prompt's means. Pairs are dealt to threads whole, and nothing else depends on them.
  // FAILED_PRECONDITION, naming the head: a query or a key is NaN or infinite.
  absl::Status Add(const engine::FrequencyVectors::Vectors& before_rope,
                   const engine::FrequencyVectors::Vectors& rotated, const FrequencyPairs& pairs);

  // A HeadFrequencies, then its heat maps' pieces, rows ascending, then pairs.
  absl::Status Emit(double attention_factor, Recorder& recorder) const;

  // Bytes that one head holds. Rows count as far as a prompt of `tokens` has them.
  static int64_t Bytes(const v1::FrequencyProfile& request, int64_t head_dim, int64_t tokens);

 private:
  struct HeatRow {
    int64_t row = 0;
    std::vector<double> products;  // [pairs, row + 1]
    std::vector<double> std;       // [pairs]
  };
  void AddPair(const engine::FrequencyVectors::Vectors& before_rope,
               const engine::FrequencyVectors::Vectors& rotated, int64_t stored, int64_t pair);
  absl::Status EmitRow(const HeatRow& row, Recorder& recorder) const;

  const v1::MeasuredHead& head_;
  const int64_t skip_first_, pairs_;
  int64_t prompts_ = 0;
  std::vector<double> theta_;
  std::vector<double> query_, key_;  // [pairs, 2]: lower dimension, upper dimension
  std::vector<double> products_, magnitudes_, at_lag_;
  std::vector<HeatRow> rows_;
};

}  // namespace ropelab::measure
