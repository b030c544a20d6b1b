// The kinds of RoPE scaling, one row each.
#pragma once

#include <cstdint>
#include <string>

#include "worker/formats/config_fields.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {

// Reads the fields of scaling `type` from `from`; `fields` is the whole config, whose
// original_max_position_embeddings counts too. Refuses a type that is not known, and names those that are.
RopeScaling ReadRopeScaling(ConfigFields& fields, ConfigFields& from, const std::string& type,
                            const ModelConfig& config);

// Tokens of the longest prompt, for a max_position_embeddings of `positions`: linear and yarn multiply it (or
// the length they start from) by their factor, dynamic takes up to 2^20, the others take it as it is. Never
// less than `positions`.
int64_t LongestPrompt(const RopeScaling& scaling, int64_t positions);

// "none", "linear", ...: as the canonical text calls it.
const char* RopeScalingName(RopeScalingKind kind);

}  // namespace ropelab::formats
