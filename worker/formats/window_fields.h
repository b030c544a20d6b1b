// Which layers attend through a sliding window.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "worker/formats/config_fields.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {

// Keys that a row sees, its own included; 0 for a null field, `missing` for an absent one.
int64_t ReadWindow(ConfigFields& fields, int64_t missing);

// Fills config.sliding_window: `slides` says which layers do. A list in `layer_types` overrides it; one that
// names a sliding layer where `window` is 0 is refused.
void FillWindows(ConfigFields& fields, ModelConfig& config, int64_t window,
                 absl::FunctionRef<bool(int64_t layer)> slides);

// The same where the family's reference looks at no `layer_types`: a list that says otherwise than `slides`
// is refused.
void FillFixedWindows(ConfigFields& fields, ModelConfig& config, int64_t window, bool slides);

}  // namespace ropelab::formats
