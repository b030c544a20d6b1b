#include "worker/engine/row_kernels.h"

#include <algorithm>
#include <cmath>

#include "worker/engine/vector_math.h"

namespace ropelab::engine {
namespace {

constexpr int kLanes =
    32;  // running sums and maxima; fixed, so the order of a sum does not follow the vector width
constexpr int64_t kPartial = 1024;  // entries summed in fp32 before the sum is widened

ROPELAB_INLINE float Largest(const float* row, int64_t n) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = row[0];
  const int64_t whole = n - n % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = row[i + l] > lanes[l] ? row[i + l] : lanes[l];
  }
  float largest = lanes[0];
  for (int l = 1; l < kLanes; ++l) largest = lanes[l] > largest ? lanes[l] : largest;
  for (int64_t i = whole; i < n; ++i) largest = row[i] > largest ? row[i] : largest;
  return largest;
}

// Replaces [0, n) by exponentials and returns their sum in fp32; n <= kPartial.
ROPELAB_INLINE float ExponentiatePart(float* row, int64_t n, float largest, float scale) {
  float lanes[kLanes] = {};
  const int64_t whole = n - n % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float e = ExpOfNonPositive((row[i + l] - largest) * scale);
      row[i + l] = e;
      lanes[l] += e;
    }
  }
  float sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += lanes[l];
  for (int64_t i = whole; i < n; ++i) {
    row[i] = ExpOfNonPositive((row[i] - largest) * scale);
    sum += row[i];
  }
  return sum;
}

}  // namespace

ROPELAB_VECTOR_CLONES bool SoftmaxRow(float* row, int64_t n, float scale) {
  const float largest = Largest(row, n);
  double sum = 0;
  for (int64_t i = 0; i < n; i += kPartial) {
    sum += ExponentiatePart(row + i, std::min(kPartial, n - i), largest, scale);
  }
  const float inverse = static_cast<float>(1.0 / sum);
  for (int64_t i = 0; i < n; ++i) row[i] *= inverse;
  return std::isfinite(sum);
}

ROPELAB_VECTOR_CLONES bool SoftCapRow(float* row, int64_t n, float scale, float cap) {
  const float factor = static_cast<float>(static_cast<double>(scale) / static_cast<double>(cap));
  float broken = 0;  // stays 0 while x - x is: NaN and infinity make it NaN
  float lanes[kLanes] = {};
  const int64_t whole = n - n % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float x = row[i + l];
      lanes[l] += x - x;
      row[i + l] = cap * Tanh(x * factor);
    }
  }
  for (int l = 0; l < kLanes; ++l) broken += lanes[l];
  for (int64_t i = whole; i < n; ++i) {
    broken += row[i] - row[i];
    row[i] = cap * Tanh(row[i] * factor);
  }
  return broken == 0;
}

ROPELAB_VECTOR_CLONES void AddRow(const float* row, int64_t n, float* sums) {
  ROPELAB_INDEPENDENT_ROUNDS
  for (int64_t i = 0; i < n; ++i) sums[i] += row[i];
}

ROPELAB_VECTOR_CLONES void QueryTimesKeys(const float* query, const float* keys, int64_t dims, int64_t stride,
                                          int64_t n, float* logits) {
  for (int64_t t = 0; t < n; ++t) logits[t] = 0;
  for (int64_t d = 0; d < dims; ++d) {
    const float q = query[d];
    const float* row = keys + d * stride;
    ROPELAB_INDEPENDENT_ROUNDS
    for (int64_t t = 0; t < n; ++t) logits[t] += q * row[t];
  }
}

namespace {

ROPELAB_VECTOR_CLONES void AddTerms(const float* weights, const float* values, int64_t dims, int64_t n,
                                    float* sums) {
  for (int64_t t = 0; t < n; ++t) {
    const float w = weights[t];
    const float* row = values + t * dims;
    ROPELAB_INDEPENDENT_ROUNDS
    for (int64_t d = 0; d < dims; ++d) sums[d] += w * row[d];
  }
}

}  // namespace

void WeightedValues::Add(const float* weights, const float* values, int64_t n, int64_t first) {
  for (int64_t t = 0; t < n;) {
    const int64_t part = std::min(n - t, kSumBlock - (first + t) % kSumBlock);
    AddTerms(weights + t, values + t * dims_, dims_, part, block_);
    t += part;
    if ((first + t) % kSumBlock == 0) Finish();
  }
}

void WeightedValues::Finish() {
  AddRow(block_, dims_, output_);
  std::fill_n(block_, dims_, 0.0f);
}

}  // namespace ropelab::engine
