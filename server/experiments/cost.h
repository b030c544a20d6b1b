// What a run would take, before it runs.
#pragma once

#include <cstdint>

#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// The rate that expected times are computed with: a few cores' worth of fp32 products.
inline constexpr double kStatedFlops = 5e10;  // floating-point operations per second

// Operations of one forward pass over `tokens`: two per parameter and token, and causal attention (q·k and
// p·v over half of the square), in every layer and head.
double ForwardFlops(const ModelFacts& model, int64_t tokens);

// Fills device_seconds and basis.
void SetDeviceSeconds(double flops, v1::Estimate& estimate);

}  // namespace ropelab::experiments
