// Writes the safetensors layout: equal tensors give equal bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::formats {

struct NamedTensor {
  std::string name;
  std::string dtype;  // as safetensors spells it: "F32", "BF16", "F16", "I64", ...
  std::vector<int64_t> shape;
  std::string bytes;  // little-endian, row-major
};

// Header and data in the order given; the header is padded with spaces so that data starts at a multiple of
// 64 bytes. The caller's duty: unique names, known dtypes, bytes that fit the shape (WriteSafetensors checks
// them).
std::string SerializeSafetensors(const std::vector<NamedTensor>& tensors);

// Checks the tensors, then replaces `path` in one step (a temporary file beside it, synced and renamed).
absl::Status WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors);

// Replaces `path` in one step with `text`; an error names the path and what the system said.
absl::Status WriteFileAtomically(const std::string& path, std::string_view text);

}  // namespace ropelab::formats
