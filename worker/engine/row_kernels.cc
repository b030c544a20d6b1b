#include "worker/engine/row_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ROPELAB_VECTOR_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define ROPELAB_VECTOR_CLONES
#endif
#define ROPELAB_INLINE inline __attribute__((always_inline))

namespace ropelab::engine {
namespace {

constexpr int kLanes =
    32;  // running sums and maxima; fixed, so the order of a sum does not follow the vector width
constexpr int64_t kPartial = 1024;  // entries summed in fp32 before the sum is widened

// e^x for x <= 0, within 2 ulp; 0 below -87.3, where the result would be subnormal. NaN stays NaN. Written
// without branches so that it vectorizes: x = n ln 2 + r, |r| <= ln 2 / 2, polynomial of degree 6 in r
// (Cephes' expf).
ROPELAB_INLINE float ExpOfNonPositive(float x) {
  constexpr float kRoundToInteger =
      12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
  const float shifted = x * 1.44269504088896341f + kRoundToInteger;
  const float n = shifted - kRoundToInteger;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;
  const float scaled = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
  return x < -87.3f ? 0.0f : scaled;
}

// tanh(x) within 2 ulp, without branches so that it vectorizes: an odd polynomial near zero (Cephes' tanhf),
// (1 - e^-2|x|) / (1 + e^-2|x|) elsewhere. NaN stays NaN.
ROPELAB_INLINE float Tanh(float x) {
  const float magnitude = std::fabs(x);
  const float square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float near = p * square * x + x;
  const float e = ExpOfNonPositive(-2.0f * magnitude);
  const float far = std::copysign((1.0f - e) / (1.0f + e), x);
  return magnitude < 0.625f ? near : far;
}

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
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) sums[i] += row[i];
}

ROPELAB_VECTOR_CLONES void QueryTimesKeys(const float* query, const float* keys, int64_t dims, int64_t stride,
                                          int64_t n, float* logits) {
  for (int64_t t = 0; t < n; ++t) logits[t] = 0;
  for (int64_t d = 0; d < dims; ++d) {
    const float q = query[d];
    const float* row = keys + d * stride;
#pragma GCC ivdep
    for (int64_t t = 0; t < n; ++t) logits[t] += q * row[t];
  }
}

ROPELAB_VECTOR_CLONES void WeightsTimesValues(const float* weights, const float* values, int64_t dims,
                                              int64_t n, float* output) {
  for (int64_t d = 0; d < dims; ++d) output[d] = 0;
  for (int64_t t = 0; t < n; ++t) {
    const float w = weights[t];
    const float* row = values + t * dims;
#pragma GCC ivdep
    for (int64_t d = 0; d < dims; ++d) output[d] += w * row[d];
  }
}

ROPELAB_VECTOR_CLONES void AddWeightsTimesValues(const float* weights, const float* values, int64_t dims,
                                                 int64_t n, float* output) {
  for (int64_t t = 0; t < n; ++t) {
    const float w = weights[t];
    const float* row = values + t * dims;
#pragma GCC ivdep
    for (int64_t d = 0; d < dims; ++d) output[d] += w * row[d];
  }
}

}  // namespace ropelab::engine
