// Hugging Face computes the frequencies with PyTorch's fp32 operations; ATen's are the same ones (with
// ATEN_CPU_CAPABILITY=default, whose pow is the C library's, every bit agrees but in dynamic, where a few
// values in ten thousand fall on the other side of the C library's rounding).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "worker/formats/model_config.h"

namespace ropelab {
namespace {

using formats::RopeScaling;
using formats::RopeScalingKind;

at::Tensor Exponents(int64_t head_dim) {
  return at::arange(0, head_dim, 2, at::kLong).to(at::kFloat) / head_dim;
}

at::Tensor Inverse(const at::Tensor& powers) {
  return powers.reciprocal() * 1.0;
}

at::Tensor Powers(const formats::ModelConfig& config) {
  return at::pow(at::Scalar(config.rope_theta), Exponents(config.head_dim));
}

at::Tensor Llama3(const formats::ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  const at::Tensor frequencies = Inverse(Powers(config));
  const double original = static_cast<double>(scaling.original_max_positions);
  const at::Tensor wavelength = frequencies.reciprocal() * (2 * std::numbers::pi);
  const at::Tensor is_long = wavelength > original / scaling.low_freq_factor;
  const at::Tensor is_short = wavelength < original / scaling.high_freq_factor;
  const at::Tensor scaled = at::where(is_long, frequencies / scaling.factor, frequencies);
  const at::Tensor smooth = (wavelength.reciprocal() * original - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
  const at::Tensor smoothed = (smooth.neg() + 1) * scaled / scaling.factor + smooth * scaled;
  return at::where(is_long.logical_or(is_short), scaled, smoothed);
}

at::Tensor Dynamic(const formats::ModelConfig& config, int64_t tokens) {
  const double factor = config.rope_scaling.factor;
  const int64_t original = config.rope_scaling.original_max_positions;
  if (tokens <= original) return Inverse(Powers(config));
  const double exponent = static_cast<double>(config.head_dim) / static_cast<double>(config.head_dim - 2);
  const at::Tensor length = at::arange(tokens).max() + 1;
  const at::Tensor base =
      at::pow(length * factor / original - (factor - 1), at::Scalar(exponent)) * config.rope_theta;
  return Inverse(at::pow(base, Exponents(config.head_dim)));
}

at::Tensor Yarn(const formats::ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  const auto dimensions = static_cast<double>(config.head_dim);
  const auto pair = [&](double rotations) {
    return dimensions *
           std::log(static_cast<double>(scaling.original_max_positions) /
                    (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(config.rope_theta));
  };
  const double low = std::max(std::floor(pair(scaling.beta_fast)), 0.0);
  double high = std::min(std::ceil(pair(scaling.beta_slow)), dimensions - 1);
  if (low == high) high += 0.001;
  const at::Tensor ramp = at::clamp((at::arange(config.head_dim / 2, at::kFloat) - low) / (high - low), 0, 1);
  const at::Tensor keep = at::rsub(ramp, 1);
  const at::Tensor powers = Powers(config);
  return Inverse(powers * scaling.factor) * at::rsub(keep, 1) + Inverse(powers) * keep;
}

at::Tensor LongRope(const formats::ModelConfig& config, int64_t tokens) {
  const RopeScaling& scaling = config.rope_scaling;
  const bool is_long = tokens > scaling.original_max_positions;
  const at::Tensor factors =
      at::tensor(at::ArrayRef<double>(is_long ? scaling.long_factor : scaling.short_factor), at::kFloat);
  return Inverse(factors * Powers(config));
}

at::Tensor HuggingFaceFrequencies(const formats::ModelConfig& config, int64_t tokens) {
  switch (config.rope_scaling.kind) {
    case RopeScalingKind::kNone:
      return Inverse(Powers(config));
    case RopeScalingKind::kLinear:
      return Inverse(Powers(config)) / config.rope_scaling.factor;
    case RopeScalingKind::kLlama3:
      return Llama3(config);
    case RopeScalingKind::kYarn:
      return Yarn(config);
    case RopeScalingKind::kDynamic:
      return Dynamic(config, tokens);
    case RopeScalingKind::kLongRope:
      return LongRope(config, tokens);
  }
  return {};
}

formats::ModelConfig Config(int64_t head_dim, double theta, RopeScalingKind kind) {
  formats::ModelConfig config;
  config.head_dim = head_dim;
  config.rope_theta = theta;
  config.rope_scaling.kind = kind;
  config.rope_scaling.factor = 8.0;
  config.rope_scaling.original_max_positions = 512;
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    config.rope_scaling.short_factor.push_back(1.0 + 0.01 * static_cast<double>(pair));
    config.rope_scaling.long_factor.push_back(1.0 + 0.5 * static_cast<double>(pair));
  }
  return config;
}

TEST(InverseFrequencies, AreHuggingFacesToTheLastPlacesOfFloat32) {
  for (const RopeScalingKind kind :
       {RopeScalingKind::kNone, RopeScalingKind::kLinear, RopeScalingKind::kLlama3, RopeScalingKind::kYarn,
        RopeScalingKind::kDynamic, RopeScalingKind::kLongRope}) {
    for (const int64_t head_dim : {8, 16, 64, 96, 128, 256}) {
      for (const double theta : {1e4, 2e4, 5e5, 1e6}) {
        for (const int64_t tokens : {1, 512, 513, 5000}) {
          const formats::ModelConfig config = Config(head_dim, theta, kind);
          const at::Tensor reference = HuggingFaceFrequencies(config, tokens).contiguous();
          ASSERT_EQ(reference.scalar_type(), at::kFloat);
          const std::vector<double> frequencies = formats::InverseFrequencies(config, tokens);
          ASSERT_EQ(static_cast<int64_t>(frequencies.size()), reference.numel());
          for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
            const double expected = static_cast<double>(reference.data_ptr<float>()[pair]);
            // PyTorch's vectorised pow is within one unit of the last place; blends and a base that is itself
            // a power magnify that.
            EXPECT_NEAR(frequencies[static_cast<size_t>(pair)] / expected, 1.0,
                        kind == RopeScalingKind::kNone ? 2.5e-7 : 1e-6)
                << "kind " << static_cast<int>(kind) << " D " << head_dim << " pair " << pair << " of "
                << tokens << " tokens";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ropelab
