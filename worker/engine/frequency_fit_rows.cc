#include "worker/engine/frequency_fit_rows.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ROPELAB_VECTOR_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define ROPELAB_VECTOR_CLONES
#endif

namespace ropelab::engine {
namespace {

constexpr int kLanes = 16;  // running sums; fixed, so that no order follows the vector width

}  // namespace

ROPELAB_VECTOR_CLONES double AddDifferences(const float* row, int64_t n, double pilot, double* lags) {
  double lanes[kLanes] = {};
  const int64_t whole = n - n % kLanes;
  for (int64_t j = 0; j < whole; j += kLanes) {
    double differences[kLanes];
    for (int l = 0; l < kLanes; ++l) differences[l] = static_cast<double>(row[j + l]) - pilot;
    for (int l = 0; l < kLanes; ++l) lanes[l] += differences[l];
    for (int l = 0; l < kLanes; ++l) lags[j + l] += differences[l];
  }
  double sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += lanes[l];
  for (int64_t j = whole; j < n; ++j) {
    const double difference = static_cast<double>(row[j]) - pilot;
    sum += difference;
    lags[j] += difference;
  }
  return sum;
}

ROPELAB_VECTOR_CLONES RowSquares SquaresOfRow(const float* row, int64_t n, double pilot, double mean,
                                              const double* explained, double explained_mean) {
  double variation[kLanes] = {}, error[kLanes] = {};
  const int64_t whole = n - n % kLanes;
  for (int64_t j = 0; j < whole; j += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const double centred = (static_cast<double>(row[j + l]) - pilot) - mean;
      const double rest = centred - (explained[j + l] - explained_mean);
      variation[l] += centred * centred;
      error[l] += rest * rest;
    }
  }
  RowSquares squares;
  for (int l = 0; l < kLanes; ++l) {
    squares.variation += variation[l];
    squares.error += error[l];
  }
  for (int64_t j = whole; j < n; ++j) {
    const double centred = (static_cast<double>(row[j]) - pilot) - mean;
    const double rest = centred - (explained[j] - explained_mean);
    squares.variation += centred * centred;
    squares.error += rest * rest;
  }
  return squares;
}

}  // namespace ropelab::engine
