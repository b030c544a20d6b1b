// What SQLite and the file system say, as absl::Status.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace ropelab::store {

// From errno: ENOSPC and EDQUOT are RESOURCE_EXHAUSTED and marked as disk full, ENOENT is NOT_FOUND, all else
// UNAVAILABLE.
absl::Status FileError(const std::string& doing, const std::string& path, int error_number);
// From an SQLite result code, as connection.h promises.
absl::Status SqliteError(int code, const std::string& message);
// True for UNAVAILABLE from either: the disk or the database does not answer, as against a server that stops.
bool IsStoreTrouble(const absl::Status& status);
// True for RESOURCE_EXHAUSTED for want of space, as against quotas and queues.
bool IsDiskFull(const absl::Status& status);

}  // namespace ropelab::store
