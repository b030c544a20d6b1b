// The header of a safetensors file, believed only after every claim in it has been checked against the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::formats {

inline constexpr uint64_t kMaxSafetensorsHeader =
    100'000'000;  // bytes, as the reference implementation has it

struct TensorRange {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the file
  uint64_t end = 0;
};

// Bytes per element; nothing for a dtype that safetensors does not define.
std::optional<int64_t> DtypeSize(std::string_view dtype);

// Product of shape times the dtype's size. Errors: unknown dtype, negative dimension, a product beyond int64.
absl::StatusOr<int64_t> TensorBytes(std::string_view dtype, const std::vector<int64_t>& shape);

// `file` is the whole file, `name` what messages call it. Tensors come in header order; `__metadata__` is
// left out. Refused (InvalidArgument): a file shorter than it says, a header over kMaxSafetensorsHeader, JSON
// that is deeper or different from the format, a name twice, an unknown dtype, negative or overflowing
// shapes, byte ranges reversed, outside the data, overlapping, or unequal to shape times dtype.
absl::StatusOr<std::vector<TensorRange>> ParseSafetensorsHeader(std::string_view file,
                                                                const std::string& name);

}  // namespace ropelab::formats
