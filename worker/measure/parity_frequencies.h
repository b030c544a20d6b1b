// The RoPE frequencies once more, from the published formulas in double.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/formats/model_config.h"

namespace ropelab::measure {

// rad/token of pairs 1..D/2 in storage order for a prompt of `tokens` tokens.
std::vector<double> PlainFrequencies(const formats::ModelConfig& config, int64_t tokens);

}  // namespace ropelab::measure
