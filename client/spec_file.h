// A spec as a person wrote it, text format or JSON, as a message. Everything that can be said without the
// server is said here, with the place in the file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::client {

inline constexpr int64_t kMaxSpecBytes = int64_t{2} << 20;

// Reads at most kMaxSpecBytes ("-" is standard input). Errors name the file.
absl::StatusOr<std::string> ReadSpecFile(const std::string& path);

// `name` stands in messages ("slash.textproto:3:5: ..."), and its ending (.json, .textproto) decides the
// language; any other ending leaves it to the first character. A file with top-level `experiments` is a
// study. Errors: INVALID_ARGUMENT.
absl::StatusOr<v1::Submission> ParseSpec(const std::string& name, const std::string& text);

// What protobuf's JSON lets pass: a key given twice in one object (also once as snake_case and once as
// camelCase), trailing commas, bare NaN, anything after the value. Errors: INVALID_ARGUMENT, naming line and
// column or the key's path.
absl::Status CheckJson(const std::string& name, const std::string& text);

}  // namespace ropelab::client
