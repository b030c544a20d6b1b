// Whether stored numbers are finite, by their bits: no conversion, no copy, no alignment asked for.
#pragma once

#include <string_view>

namespace ropelab::formats {

// `dtype` is F32, BF16 or F16 as safetensors spells it and `bytes` whole little-endian elements of it; any
// other dtype has nothing that is not finite. A value is NaN or infinity exactly where all its exponent bits
// are set.
bool AllFinite(std::string_view dtype, std::string_view bytes);

}  // namespace ropelab::formats
