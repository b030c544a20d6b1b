// Hugging Face computes in PyTorch's fp32, where "scalar / tensor" is reciprocal times scalar and scalars
// enter as fp32: the order of the steps below follows it, and this folder is compiled without contraction
// into fused steps. Scalars that it computes in Python are doubles here too.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "worker/formats/model_config.h"

namespace ropelab::formats {
namespace {

// The power is taken in double and rounded: the correctly rounded fp32 value, whatever the C library's powf
// does.
float Power(float base, float exponent) {
  return static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}

// base^(2j/D) of every pair.
std::vector<float> Wavelengths(float base, int64_t head_dim) {
  std::vector<float> powers;
  powers.reserve(static_cast<size_t>(head_dim / 2));
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    powers.push_back(Power(base, static_cast<float>(2 * pair) / static_cast<float>(head_dim)));
  }
  return powers;
}

// Wavelengths beyond original/low are stretched by `factor`, those below original/high kept, those between
// blended.
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

// The base of a prompt longer than the model's own length grows with it. Up to that length the growth is a
// Python float (1 up to rounding), beyond it a tensor, since the length is one.
float DynamicBase(const ModelConfig& config, int64_t tokens) {
  const RopeScaling& scaling = config.rope_scaling;
  const int64_t original = scaling.original_max_positions;
  const auto dimensions = static_cast<double>(config.head_dim);
  const double exponent = dimensions / (dimensions - 2.0);
  if (tokens <= original) {
    const auto length = static_cast<double>(original);
    const double growth = scaling.factor * length / length - (scaling.factor - 1.0);
    return static_cast<float>(config.rope_theta * std::pow(growth, exponent));
  }
  const float stretched = static_cast<float>(scaling.factor) * static_cast<float>(tokens);
  const float growth = stretched / static_cast<float>(original) - static_cast<float>(scaling.factor - 1.0);
  // PyTorch raises a tensor to a scalar in double.
  const auto power = static_cast<float>(std::pow(static_cast<double>(growth), exponent));
  return static_cast<float>(config.rope_theta) * power;
}

// The pair, as a real number, whose wavelength turns `rotations` times within the original length.
double YarnPair(double rotations, const ModelConfig& config) {
  const auto original = static_cast<double>(config.rope_scaling.original_max_positions);
  return static_cast<double>(config.head_dim) * std::log(original / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.rope_theta));
}

// Fast pairs are kept, slow ones stretched by `factor`, between them a ramp over the pairs' numbers.
std::vector<float> YarnFrequencies(const std::vector<float>& wavelengths, const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  double low = YarnPair(scaling.beta_fast, config);
  double high = YarnPair(scaling.beta_slow, config);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.head_dim - 1));
  if (low == high) high += 0.001;
  const auto start = static_cast<float>(low);
  const auto length = static_cast<float>(high - low);
  const auto factor = static_cast<float>(scaling.factor);
  std::vector<float> frequencies;
  for (size_t pair = 0; pair < wavelengths.size(); ++pair) {
    const float ramp = std::clamp((static_cast<float>(pair) - start) / length, 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    const float stretched = (1.0f / (factor * wavelengths[pair])) * (1.0f - keep);
    const float kept = (1.0f / wavelengths[pair]) * keep;
    frequencies.push_back(stretched + kept);
  }
  return frequencies;
}

std::vector<float> Scaled(std::vector<float> wavelengths, const ModelConfig& config, int64_t tokens) {
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == RopeScalingKind::kYarn) return YarnFrequencies(wavelengths, config);
  if (scaling.kind == RopeScalingKind::kLongRope) {
    const std::vector<double>& factors =
        tokens > scaling.original_max_positions ? scaling.long_factor : scaling.short_factor;
    for (size_t pair = 0; pair < wavelengths.size(); ++pair) {
      wavelengths[pair] = static_cast<float>(factors[pair]) * wavelengths[pair];
    }
  }
  std::vector<float> frequencies;
  for (const float wavelength : wavelengths) {
    float frequency = 1.0f / wavelength;
    if (scaling.kind == RopeScalingKind::kLinear) frequency = frequency / static_cast<float>(scaling.factor);
    if (scaling.kind == RopeScalingKind::kLlama3) frequency = Llama3Frequency(frequency, scaling);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace

std::vector<double> InverseFrequencies(const ModelConfig& config, int64_t tokens) {
  const float base = config.rope_scaling.kind == RopeScalingKind::kDynamic
                         ? DynamicBase(config, tokens)
                         : static_cast<float>(config.rope_theta);
  const std::vector<float> frequencies = Scaled(Wavelengths(base, config.head_dim), config, tokens);
  return {frequencies.begin(), frequencies.end()};
}

bool FrequenciesDependOnLength(const ModelConfig& config) {
  return config.rope_scaling.kind == RopeScalingKind::kDynamic ||
         config.rope_scaling.kind == RopeScalingKind::kLongRope;
}

}  // namespace ropelab::formats
