// Files named by their content under data-dir/artifacts. A file is synced, and its folder too, before a row may name it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ropelab::store {

class ArtifactFiles {
 public:
  explicit ArtifactFiles(std::string folder);

  // Stores `bytes` durably and returns their SHA-256 in hex. Storing what is there already costs a stat.
  absl::StatusOr<std::string> Put(std::string_view bytes);
  // An upload in pieces: each Append must start where the last one ended (a restart at 0 throws the earlier pieces away).
  // `upload` tells concurrent uploads of one file apart. Finish checks the hash, syncs and renames.
  absl::Status Append(const std::string& upload, int64_t offset, std::string_view data);
  absl::StatusOr<int64_t> Finish(const std::string& upload, const std::string& sha256);
  void Abandon(const std::string& upload);

  bool Has(const std::string& sha256) const;
  absl::StatusOr<std::string> Get(const std::string& sha256) const;
  absl::Status ForEachChunk(const std::string& sha256, int64_t chunk_bytes,
                            absl::FunctionRef<absl::Status(std::string_view)> visit) const;
  std::string PathOf(const std::string& sha256) const;
  // Removes what half-finished uploads left behind. At start only.
  absl::Status RemoveUnfinished();

 private:
  std::string folder_;
};

}  // namespace ropelab::store
