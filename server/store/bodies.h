// Small bodies stand in their row, large ones in a content-named file: one column is NULL, the other is not.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/artifact_files.h"
#include "server/store/connection.h"

namespace ropelab::store {

inline constexpr size_t kLargestInlineBody = 64 << 10;

// What the two columns get. Valid as long as `bytes` that it was made from.
class StoredBody {
 public:
  static absl::StatusOr<StoredBody> Of(ArtifactFiles& files, const std::string& bytes);
  Value body() const { return file_ ? Value(nullptr) : Value(Blob{*bytes_}); }
  Value file() const { return file_ ? Value(std::string_view(*file_)) : Value(nullptr); }

 private:
  const std::string* bytes_ = nullptr;
  std::optional<std::string> file_;
};

absl::StatusOr<std::string> ReadBody(const ArtifactFiles& files, const Row& row, int body_column,
                                     int file_column);

}  // namespace ropelab::store
