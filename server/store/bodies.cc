#include "server/store/bodies.h"

#include "common/status_macros.h"

namespace ropelab::store {

absl::StatusOr<StoredBody> StoredBody::Of(ArtifactFiles& files, const std::string& bytes) {
  StoredBody stored;
  stored.bytes_ = &bytes;
  if (bytes.size() > kLargestInlineBody) {
    ROPELAB_ASSIGN_OR_RETURN(stored.file_, files.Put(bytes));
  }
  return stored;
}

absl::StatusOr<std::string> ReadBody(const ArtifactFiles& files, const Row& row, int body_column,
                                     int file_column) {
  if (row.IsNull(file_column)) return row.Bytes(body_column);
  return files.Get(row.Text(file_column));
}

}  // namespace ropelab::store
