// Which files of a directory hold a checkpoint's tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ropelab::formats {

struct ShardList {
  std::vector<std::string> files;             // names inside the directory, sorted
  std::map<std::string, std::string> placed;  // tensor -> file as the index says; empty without an index
};

// The name of what says where a directory's tensors are: model.safetensors where it exists, else
// model.safetensors.index.json; "" without either.
std::string CheckpointFile(const std::string& directory);

// model.safetensors where it exists, else what model.safetensors.index.json names. NotFound when there is
// neither; InvalidArgument for an index that is malformed or names a file outside the directory.
absl::StatusOr<ShardList> FindShards(const std::string& directory);

struct FileStamps {
  // "name=size@mtime_ns/inode@ctime_ns" of each file, joined by ";" in the order given; a missing file is
  // "name=-". The inode tells a replaced file, and no tool can set the time of the last change (ctime) back:
  // a copy over the file with its old times restored still shows.
  std::string text;
  int64_t newest_ns = 0;  // the latest mtime or ctime among the files, in nanoseconds since 1970; 0: no file
};
absl::StatusOr<FileStamps> StampFiles(const std::string& directory, const std::vector<std::string>& files);

}  // namespace ropelab::formats
