// RoPE's base and scaling as config.json says them: `rope_parameters` (newer) or `rope_theta` with
// `rope_scaling` (older), the kind under `rope_type` or `type`.
#pragma once

#include "worker/formats/config_fields.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {

// Fills rope_theta and rope_scaling, and stretches max_positions as the scaling does. Wants head_dim,
// max_positions and sliding_window filled: parameters may be given for each type of layer, and then all types
// that the layers have must say the same. A kind that is not known, a part of the head left unrotated and two
// places that disagree are refused by name.
void ReadRope(ConfigFields& fields, ModelConfig& config);

}  // namespace ropelab::formats
