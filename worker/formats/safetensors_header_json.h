// The JSON of a safetensors header, read event by event: the format's three levels are all the depth there
// is, so a file of a million brackets costs nothing and a name that comes twice is seen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ropelab::formats {

// As the header says it: nothing compared with the file yet.
struct HeaderTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the data
  uint64_t end = 0;
};

// `name` is what messages call the file. Errors: not JSON, not a header's structure, a field missing, unknown
// or twice, a tensor twice, a dimension that is negative or no integer.
absl::StatusOr<std::vector<HeaderTensor>> ParseHeaderJson(std::string_view json, const std::string& name);

}  // namespace ropelab::formats
