// Files named by their content under data-dir/artifacts. A file is synced, and its folder too, before a row
// may name it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"

namespace ropelab::store {

// Any thread, except that the pieces of one upload come from one thread at a time. A full disk is
// RESOURCE_EXHAUSTED, a name that is not 64 hex digits INVALID_ARGUMENT, a file that is not there NOT_FOUND.
class ArtifactFiles {
 public:
  explicit ArtifactFiles(std::string folder);

  // Stores `bytes` durably and returns their SHA-256 in hex. Storing what is there already costs a hash and a
  // stat.
  absl::StatusOr<std::string> Put(std::string_view bytes);
  // An upload in pieces: each Append must start where the last one ended (a restart at 0 throws the earlier
  // pieces away; anything else is OUT_OF_RANGE and names where the upload stands). `upload` tells concurrent
  // uploads of one file apart. Finish checks the hash (INVALID_ARGUMENT, and the pieces are gone), syncs,
  // renames and gives the bytes. Finishing what is stored already is fine, with or without pieces.
  absl::Status Append(const std::string& upload, int64_t offset, std::string_view data);
  absl::StatusOr<int64_t> Finish(const std::string& upload, const std::string& sha256);
  void Abandon(const std::string& upload);

  bool Has(const std::string& sha256) const;
  // DATA_LOSS with the file's path when it is gone or its content is not what its name says; ForEachChunk
  // sees only the former, since it reads once.
  absl::StatusOr<std::string> Get(const std::string& sha256) const;
  absl::Status Check(const std::string& sha256) const;
  absl::Status ForEachChunk(const std::string& sha256, int64_t chunk_bytes,
                            absl::FunctionRef<absl::Status(std::string_view)> visit) const;
  // folder/ab/abcd...; only for a well-formed sha256.
  std::string PathOf(const std::string& sha256) const;
  // Removes what half-finished uploads left behind. At start only.
  absl::Status RemoveUnfinished();

 private:
  std::string UploadPath(const std::string& upload) const;
  absl::Status Publish(const std::string& from, const std::string& sha256);
  // True if the file is there and its name is durable, whoever put it there.
  absl::StatusOr<bool> HasDurably(const std::string& sha256);

  std::string folder_;
  // A file that can be seen may still lack its folder's sync: renaming and syncing happen under this lock,
  // and so does asking whether a file is there already.
  Mutex publish_mutex_;
  std::array<bool, 256> shard_synced_ ROPELAB_GUARDED_BY(publish_mutex_) = {};
};

}  // namespace ropelab::store
