// What `inspect` is asked for, from flags or from a spec file.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "ropelab/v1/spec.pb.h"

namespace ropelab::tools {

// Integers separated by commas or white space, with or without brackets around them. INVALID_ARGUMENT names
// the piece that is none.
absl::StatusOr<v1::TokenIds> ReadTokenIds(const std::string& text);

// Names separated by commas.
std::vector<std::string> ReadNames(const std::string& text);

// An ExperimentSpec with an inspection: JSON when the file's name ends in .json, else text format. What an
// intervention leaves out is written out as the server does: target QUERY, stage PRE_ROPE, positions ALL,
// both matrices. Errors name the file.
absl::StatusOr<v1::ExperimentSpec> ReadInspectionSpec(const std::string& path);

absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace ropelab::tools
