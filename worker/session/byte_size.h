// Sizes as people write them on a command line.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ropelab::session {

// "6g", "500 MiB", "1.5GB", "1048576": a positive number and the first letter of a power of 1024 (k, m, g, t
// in either case, with B or iB after it if you like). Bytes, at most 2^62, fractions of a byte cut off.
absl::StatusOr<int64_t> ParseByteSize(const std::string& text);

}  // namespace ropelab::session
