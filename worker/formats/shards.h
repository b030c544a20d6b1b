// Which files of a directory hold a checkpoint's tensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ropelab::formats {

struct ShardList {
  std::vector<std::string> files;             // names inside the directory, sorted
  std::map<std::string, std::string> placed;  // tensor -> file as the index says; empty without an index
};

// model.safetensors where it exists, else what model.safetensors.index.json names. NotFound when there is
// neither; InvalidArgument for an index that is malformed or names a file outside the directory.
absl::StatusOr<ShardList> FindShards(const std::string& directory);

// "name=size@mtime_ns" of each file, joined by ";" in the order given; a missing file is "name=-". With
// `with_inode`, the inode and the time of its last change as well, which no tool can set back.
absl::StatusOr<std::string> StampFiles(const std::string& directory, const std::vector<std::string>& files,
                                       bool with_inode);

}  // namespace ropelab::formats
