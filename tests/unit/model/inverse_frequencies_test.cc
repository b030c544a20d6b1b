// Hugging Face computes the frequencies with PyTorch's fp32 operations; ATen's are the same ones (with
// ATEN_CPU_CAPABILITY=default, whose pow is the C library's, every bit agrees).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "worker/formats/model_config.h"

namespace ropelab {
namespace {

at::Tensor HuggingFaceFrequencies(const formats::ModelConfig& config) {
  const at::Tensor exponents = at::arange(0, config.head_dim, 2, at::kLong).to(at::kFloat) / config.head_dim;
  const at::Tensor frequencies = at::pow(at::Scalar(config.rope_theta), exponents).reciprocal() * 1.0;
  const formats::RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == formats::RopeScalingKind::kNone) return frequencies;
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

TEST(InverseFrequencies, AreHuggingFacesToTheLastPlaceOfFloat32) {
  for (const int64_t head_dim : {8, 16, 64, 96, 128}) {
    for (const double theta : {1e4, 2e4, 5e5, 1e6}) {
      for (const bool scaled : {false, true}) {
        formats::ModelConfig config;
        config.head_dim = head_dim;
        config.rope_theta = theta;
        if (scaled) config.rope_scaling = {formats::RopeScalingKind::kLlama3, 8.0, 1.0, 4.0, 8192};
        const at::Tensor reference = HuggingFaceFrequencies(config);
        const std::vector<double> frequencies = formats::InverseFrequencies(config);
        for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
          const float expected = reference[pair].item<float>();
          const auto computed = static_cast<float>(frequencies[static_cast<size_t>(pair)]);
          // PyTorch's vectorised pow is within one unit of the last place, and the blend of llama3 magnifies
          // that.
          EXPECT_NEAR(computed / expected, 1.0, scaled ? 1e-6 : 2.5e-7)
              << "D " << head_dim << " pair " << pair;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ropelab
