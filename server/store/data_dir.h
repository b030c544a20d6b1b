// One scheduler per data directory, and none on a network file system, where neither locks nor WAL can be
// trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/file_io.h"

namespace ropelab::store {

// "NFS", "SMB", ... for the f_type of statfs; nullopt for one that is not known to be remote.
std::optional<std::string> NetworkFileSystemName(uint64_t f_type);
// Makes the directory if it is not there. FAILED_PRECONDITION on a network file system.
absl::Status PrepareDataDir(const std::string& data_dir);
// Holds data-dir/lock (an OFD lock: it goes with the last descriptor, so a killed process leaves nothing to
// clean) and writes our pid into it. FAILED_PRECONDITION names the pid of the process that holds it.
absl::StatusOr<File> LockDataDir(const std::string& data_dir);

}  // namespace ropelab::store
