// A file that appears whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::client {

// Bytes go to a temporary file beside the target; Commit syncs it and renames it over the target. Without
// Commit the destructor removes it. Errors name the file and the cause.
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Write(std::string_view bytes);
  absl::Status Commit();
  int64_t bytes() const { return bytes_; }

 private:
  OutputFile(std::string path, std::string temporary, int descriptor);
  absl::Status Error(const std::string& what) const;

  std::string path_;
  std::string temporary_;
  int descriptor_;
  int64_t bytes_ = 0;
};

}  // namespace ropelab::client
