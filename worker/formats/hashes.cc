// The hashes and the stamp of a checkpoint's directory (declared in checkpoint.h).
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/json_text.h"
#include "worker/formats/safetensors_writer.h"
#include "worker/formats/shards.h"

namespace ropelab::formats {
namespace {

constexpr size_t kSlice = 16 << 20;  // bytes between two questions to keep_going
constexpr size_t kMaxCacheEntry = 10'000'000;
constexpr size_t kMaxTokenizerBytes = 1'000'000'000;

// Length first, so that no two lists of tensors spell the same bytes.
std::string TensorLine(const TensorEntry& tensor) {
  return absl::StrCat(tensor.name.size(), ":", tensor.name, ";", tensor.dtype, ";[",
                      absl::StrJoin(tensor.shape, ","), "];", tensor.bytes.size(), "\n");
}

absl::StatusOr<std::string> HashTensors(const std::string& directory,
                                        absl::FunctionRef<bool(int64_t done, int64_t total)> keep_going) {
  ROPELAB_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(directory));
  const int64_t total = checkpoint.bytes();
  int64_t done = 0;
  Sha256 hash;
  for (const TensorEntry& tensor : checkpoint.tensors()) {
    hash.Update(TensorLine(tensor));
    for (size_t at = 0; at < tensor.bytes.size(); at += kSlice) {
      if (!keep_going(done, total)) {
        return absl::CancelledError(absl::StrCat(directory, ": hashing the weights was cancelled at ", done,
                                                 " of ", total, " bytes"));
      }
      const std::string_view slice = tensor.bytes.substr(at, kSlice);
      hash.Update(slice);
      done += static_cast<int64_t>(slice.size());
    }
  }
  return hash.FinishHex();
}

// One file per directory: workers that share a cache never overwrite each other's entries.
std::string CachePath(const std::string& directory, const std::string& cache_dir) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::canonical(directory, error);
  if (error) real = directory;
  return (std::filesystem::path(cache_dir) /
          absl::StrCat("weights-", Sha256Hex(real.string()).substr(0, 32), ".json"))
      .string();
}

std::optional<std::string> ReadCache(const std::string& path, const std::string& stamp) {
  const absl::StatusOr<nlohmann::json> entry = ReadJsonObject(path, kMaxCacheEntry);
  if (!entry.ok()) return std::nullopt;
  const auto shards = entry->find("shards");
  const auto hash = entry->find("weights_hash");
  if (shards == entry->end() || hash == entry->end() || *shards != stamp || !hash->is_string())
    return std::nullopt;
  std::string text = hash->get<std::string>();
  const bool is_sha256 = text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_sha256 ? std::optional<std::string>(std::move(text)) : std::nullopt;
}

// A cache that cannot be written costs time, never the result.
void WriteCache(const std::string& path, const std::string& stamp, const std::string& hash) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const nlohmann::json entry = {{"shards", stamp}, {"weights_hash", hash}};
  const absl::Status status =
      WriteFileAtomically(path, entry.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!status.ok()) spdlog::warn("weights hash not cached: {}", std::string(status.message()));
}

}  // namespace

absl::StatusOr<std::string> WeightsHash(const std::string& directory, const std::string& cache_dir,
                                        absl::FunctionRef<bool(int64_t done, int64_t total)> keep_going) {
  ROPELAB_ASSIGN_OR_RETURN(const ShardList shards, FindShards(directory));
  ROPELAB_ASSIGN_OR_RETURN(const std::string stamp, StampFiles(directory, shards.files, /*with_inode=*/true));
  const std::string path = cache_dir.empty() ? std::string() : CachePath(directory, cache_dir);
  if (!path.empty()) {
    if (const std::optional<std::string> cached = ReadCache(path, stamp)) return *cached;
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::string hash, HashTensors(directory, keep_going));
  ROPELAB_ASSIGN_OR_RETURN(const std::string after, StampFiles(directory, shards.files, /*with_inode=*/true));
  if (after != stamp) {
    return absl::FailedPreconditionError(absl::StrCat(directory, ": a shard changed while it was hashed (",
                                                      stamp, " became ", after,
                                                      "); try again when the copy is done"));
  }
  if (!path.empty()) WriteCache(path, stamp, hash);
  return hash;
}

absl::StatusOr<std::string> TokenizerHash(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / "tokenizer.json").string();
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxTokenizerBytes);
  if (absl::IsNotFound(text.status())) return std::string();
  ROPELAB_RETURN_IF_ERROR(text.status());
  return Sha256Hex(*text);
}

absl::StatusOr<std::string> DirectoryStamp(const std::string& directory) {
  ROPELAB_ASSIGN_OR_RETURN(const ShardList shards, FindShards(directory));
  std::vector<std::string> files = {"config.json", "tokenizer.json", "model.safetensors.index.json"};
  files.insert(files.end(), shards.files.begin(), shards.files.end());
  return StampFiles(directory, files, /*with_inode=*/false);
}

}  // namespace ropelab::formats
