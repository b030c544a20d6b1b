// A whole result table as a content-named file: slices (v1::TableSlice), each after its length as a protobuf
// varint.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/results.pb.h"
#include "server/store/artifact_files.h"

namespace ropelab::store {

// Returns the file's SHA-256. `upload` is a name for the file on its way, unique among those written at the
// same time.
absl::StatusOr<std::string> WriteTableFile(ArtifactFiles& files, const std::string& upload,
                                           const v1::TableSlice& table);
absl::Status ReadTableFile(const ArtifactFiles& files, const std::string& sha256,
                           absl::FunctionRef<absl::Status(const v1::TableSlice&)> visit);

}  // namespace ropelab::store
