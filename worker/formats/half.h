// fp32 to the two 16-bit formats, to nearest, ties to even; finite input within the target's range.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace ropelab::formats {

inline uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline uint16_t ToFloat16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  // Units in the last place: 2^-24 below the smallest normal number 2^-14, else 2^(exponent - 10). nearbyint
  // rounds to even.
  const int exponent = std::max(std::ilogb(magnitude), -14);
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A carry out of the mantissa moves into the exponent by itself.
  return static_cast<uint16_t>(sign | (static_cast<uint32_t>(exponent + 14) * 1024 + units));
}

}  // namespace ropelab::formats
