#include "worker/measure/parity_frequencies.h"

#include <algorithm>
#include <cmath>

namespace ropelab::measure {
namespace {

using formats::RopeScaling;
using formats::RopeScalingKind;

// Llama 3.1: by the turns that a pair makes within the original context. Fewer than low_freq_factor: slowed
// by `factor`; more than high_freq_factor: kept; between them linear in the turns.
double Llama3(double frequency, const RopeScaling& scaling) {
  const double turns = static_cast<double>(scaling.original_max_positions) * frequency / (2 * M_PI);
  const double kept = std::clamp(
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0, 1.0);
  return frequency * (kept + (1 - kept) / scaling.factor);
}

// YaRN (arXiv 2309.00071, 3.2): a ramp over the pairs' numbers between those that make beta_fast and
// beta_slow turns within the original context.
double Yarn(double frequency, int64_t pair, const formats::ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  const auto pair_of_turns = [&](double turns) {
    // The pair whose frequency theta^(-2j/D) makes so many turns in the original context.
    const double wanted = 2 * M_PI * turns / static_cast<double>(scaling.original_max_positions);
    return -std::log(wanted) / std::log(config.rope_theta) * static_cast<double>(config.head_dim) / 2;
  };
  double first = pair_of_turns(scaling.beta_fast), last = pair_of_turns(scaling.beta_slow);
  if (scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(config.head_dim - 1));
  // As Hugging Face does: a ramp of no length becomes a very short one.
  const double length = last == first ? 0.001 : last - first;
  const double slowed = std::clamp((static_cast<double>(pair) - first) / length, 0.0, 1.0);
  return frequency * ((1 - slowed) + slowed / scaling.factor);
}

// Dynamic NTK: beyond the original length the base grows with the prompt.
double DynamicTheta(const formats::ModelConfig& config, int64_t tokens) {
  const RopeScaling& scaling = config.rope_scaling;
  const double stretch = static_cast<double>(std::max(tokens, scaling.original_max_positions)) /
                         static_cast<double>(scaling.original_max_positions);
  const double dimensions = static_cast<double>(config.head_dim);
  return config.rope_theta *
         std::pow(scaling.factor * stretch - (scaling.factor - 1), dimensions / (dimensions - 2));
}

}  // namespace

std::vector<double> PlainFrequencies(const formats::ModelConfig& config, int64_t tokens) {
  const RopeScaling& scaling = config.rope_scaling;
  const double theta =
      scaling.kind == RopeScalingKind::kDynamic ? DynamicTheta(config, tokens) : config.rope_theta;
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < config.head_dim / 2; ++pair) {
    double frequency =
        std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(config.head_dim));
    switch (scaling.kind) {
      case RopeScalingKind::kNone:
      case RopeScalingKind::kDynamic:
        break;
      case RopeScalingKind::kLinear:
        frequency /= scaling.factor;
        break;
      case RopeScalingKind::kLlama3:
        frequency = Llama3(frequency, scaling);
        break;
      case RopeScalingKind::kYarn:
        frequency = Yarn(frequency, pair, config);
        break;
      case RopeScalingKind::kLongRope:
        frequency /=
            (tokens > scaling.original_max_positions ? scaling.long_factor
                                                     : scaling.short_factor)[static_cast<size_t>(pair)];
        break;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace ropelab::measure
