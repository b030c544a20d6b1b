#include <cmath>
#include <numbers>

#include "worker/formats/model_config.h"

namespace ropelab::formats {
namespace {

// 1 / base^(2j/D), every step in fp32. The power is taken in double and rounded: the correctly rounded fp32
// value, whatever the C library's powf does.
float UnscaledFrequency(int64_t pair, const ModelConfig& config) {
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(config.head_dim);
  const float power = static_cast<float>(
      std::pow(static_cast<double>(static_cast<float>(config.rope_theta)), static_cast<double>(exponent)));
  return 1.0f / power;
}

// Wavelengths beyond original/low are stretched by `factor`, those below original/high kept, those between
// blended. "scalar / tensor" is reciprocal times scalar in PyTorch, and scalars enter as fp32: the order
// below follows it.
float Llama3Frequency(float frequency, const RopeScaling& scaling) {
  const auto original = static_cast<double>(scaling.original_max_positions);
  const auto low_wavelength = static_cast<float>(original / scaling.low_freq_factor);
  const auto high_wavelength = static_cast<float>(original / scaling.high_freq_factor);
  const auto factor = static_cast<float>(scaling.factor);
  const float wavelength = (1.0f / frequency) * static_cast<float>(2.0 * std::numbers::pi);
  if (wavelength > low_wavelength) return frequency / factor;
  if (wavelength < high_wavelength) return frequency;
  const float position =
      (1.0f / wavelength) * static_cast<float>(original) - static_cast<float>(scaling.low_freq_factor);
  const float smooth = position / static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  const float stretched = (1.0f - smooth) * frequency / factor;
  const float kept = smooth * frequency;
  return stretched + kept;
}

}  // namespace

std::vector<double> InverseFrequencies(const ModelConfig& config) {
  std::vector<double> frequencies;
  frequencies.reserve(static_cast<size_t>(config.head_dim / 2));
  for (int64_t pair = 0; pair < config.head_dim / 2; ++pair) {
    float frequency = UnscaledFrequency(pair, config);
    if (config.rope_scaling.kind == RopeScalingKind::kLlama3)
      frequency = Llama3Frequency(frequency, config.rope_scaling);
    frequencies.push_back(static_cast<double>(frequency));
  }
  return frequencies;
}

}  // namespace ropelab::formats
