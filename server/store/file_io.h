// The few system calls that durable files need, as Status.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::store {

// A descriptor that closes itself.
class File {
 public:
  static absl::StatusOr<File> Open(const std::string& path,
                                   int flags);  // O_CLOEXEC is added; new files are 0644
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();
  absl::Status WriteAt(int64_t offset, std::string_view bytes);
  // Reads up to `bytes`; fewer only at the end of the file.
  absl::StatusOr<std::string> ReadAt(int64_t offset, int64_t bytes) const;
  absl::StatusOr<int64_t> Size() const;
  absl::Status Truncate(int64_t bytes);
  absl::Status Sync();
  int descriptor() const { return descriptor_; }

 private:
  File(int descriptor, std::string path);
  int descriptor_;
  std::string path_;
};

// Makes the names in a folder durable.
absl::Status SyncFolder(const std::string& folder);

}  // namespace ropelab::store
