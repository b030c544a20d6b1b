// Elementary functions of one fp32 number, written without branches so that a loop over them vectorizes.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "worker/engine/vector_clones.h"

namespace ropelab::engine {

// e^x for x <= 0, within 2 ulp; 0 below -87.3, where the result would be subnormal. NaN stays NaN.
// x = n ln 2 + r, |r| <= ln 2 / 2, polynomial of degree 6 in r (Cephes' expf).
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

// tanh(x) within 2 ulp: an odd polynomial near zero (Cephes' tanhf), (1 - e^-2|x|) / (1 + e^-2|x|) elsewhere.
// NaN stays NaN.
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

}  // namespace ropelab::engine
