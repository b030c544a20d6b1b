// JSON from files that nobody vouches for: bounded depth, no key twice, errors that name the file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace ropelab::formats {

// Reads `path` whole (at most `max_bytes`) and parses it as one JSON object. NotFound when there is no such
// file; InvalidArgument for anything else than an object, NaN, a key twice in one object, or nesting deeper
// than 32.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path, size_t max_bytes);

// NotFound when missing; InvalidArgument when it is no regular file or larger than `max_bytes`;
// PermissionDenied when it cannot be read to its end.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes);

}  // namespace ropelab::formats
