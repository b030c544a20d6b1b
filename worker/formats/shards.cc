#include "worker/formats/shards.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/json_text.h"

namespace ropelab::formats {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = 100'000'000;

bool IsPlainName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

std::string CheckpointFile(const std::string& directory) {
  const std::filesystem::path root(directory);
  std::error_code error;
  for (const char* name : {kSingleFile, kIndexFile}) {
    if (std::filesystem::exists(root / name, error)) return name;
  }
  return "";
}

absl::StatusOr<ShardList> FindShards(const std::string& directory) {
  if (CheckpointFile(directory) == kSingleFile) return ShardList{{kSingleFile}, {}};
  const std::string index = (std::filesystem::path(directory) / kIndexFile).string();
  const absl::StatusOr<nlohmann::json> json = ReadJsonObject(index, kMaxIndexBytes);
  if (absl::IsNotFound(json.status())) {
    return absl::NotFoundError(absl::StrCat(directory, ": holds neither ", kSingleFile, " nor ", kIndexFile,
                                            "; give a directory with a checkpoint in safetensors form"));
  }
  ROPELAB_RETURN_IF_ERROR(json.status());
  const auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object() || map->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(index, ": weight_map must be an object from tensor names to shard files"));
  }
  ShardList shards;
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !IsPlainName(file.get<std::string>())) {
      return absl::InvalidArgumentError(absl::StrCat(
          index, ": weight_map.", tensor, " must name a file of the same directory, without a path"));
    }
    shards.placed[tensor] = file.get<std::string>();
    files.insert(file.get<std::string>());
  }
  shards.files.assign(files.begin(), files.end());
  return shards;
}

absl::StatusOr<FileStamps> StampFiles(const std::string& directory, const std::vector<std::string>& files) {
  FileStamps stamps;
  for (const std::string& file : files) {
    const std::string path = (std::filesystem::path(directory) / file).string();
    struct stat status {};
    absl::StrAppend(&stamps.text, stamps.text.empty() ? "" : ";", file, "=");
    if (stat(path.c_str(), &status) != 0) {
      if (errno != ENOENT && errno != ENOTDIR) {
        return absl::InternalError(absl::StrCat(path, ": cannot be looked at: ", std::strerror(errno)));
      }
      stamps.text += "-";
      continue;
    }
    const auto nanoseconds = [](const timespec& time) {
      return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
    };
    const int64_t modified = nanoseconds(status.st_mtim);
    const int64_t changed = nanoseconds(status.st_ctim);
    absl::StrAppend(&stamps.text, status.st_size, "@", modified, "/", status.st_ino, "@", changed);
    stamps.newest_ns = std::max({stamps.newest_ns, modified, changed});
  }
  return stamps;
}

}  // namespace ropelab::formats
