// The inner loops of frequency_fit.h: one row of fp32 logits, sums in double in a fixed order.
#pragma once

#include <cstdint>

namespace ropelab::engine {

// Returns the sum over j < n of row[j] - pilot; adds each of these differences to lags[j].
double AddDifferences(const float* row, int64_t n, double pilot, double* lags);

struct RowSquares {
  double variation = 0;  // sum of (row[j] - pilot - mean)^2
  double error = 0;      // sum of (row[j] - pilot - mean - (explained[j] - explained_mean))^2
};
RowSquares SquaresOfRow(const float* row, int64_t n, double pilot, double mean, const double* explained,
                        double explained_mean);

}  // namespace ropelab::engine
