// The hashes and the stamp of a checkpoint's directory (declared in checkpoint.h).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clock.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/hash_cache.h"
#include "worker/formats/json_text.h"
#include "worker/formats/mapped_pages.h"
#include "worker/formats/shards.h"

namespace ropelab::formats {
namespace {

constexpr int64_t kWorthWaiting = int64_t{256} << 20;  // bytes
constexpr size_t kMaxTokenizerBytes = 1'000'000'000;

int64_t WallNs(const Clock& clock) {
  return clock.WallMicroseconds() * 1000;
}

absl::Status Cancelled(const std::string& directory, int64_t done, int64_t total) {
  return absl::CancelledError(
      absl::StrCat(directory, ": hashing the weights was cancelled at ", done, " of ", total, " bytes"));
}

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
    for (size_t at = 0; at < tensor.bytes.size(); at += kMappedChunk) {
      if (!keep_going(done, total)) return Cancelled(directory, done, total);
      const std::string_view slice = tensor.bytes.substr(at, kMappedChunk);
      // What comes next is on its way from the disk while this is hashed.
      ReadAhead(tensor.bytes.substr(std::min(at + kMappedChunk, tensor.bytes.size()), kMappedChunk));
      hash.Update(slice);
      GiveBackPages(slice);
      done += static_cast<int64_t>(slice.size());
    }
  }
  return hash.FinishHex();
}

// Pages that somebody changed through a mapping carry the time of the first change until they are written to
// the disk; after that the next change is stamped anew. A file system that cannot do it has none to write.
void WriteOutChanges(const std::string& directory, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const int fd = open((std::filesystem::path(directory) / file).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) continue;
    fsync(fd);
    close(fd);
  }
}

int64_t BytesOf(const std::string& directory, const std::vector<std::string>& files) {
  int64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(std::filesystem::path(directory) / file, error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// Until a change would show: worth it where hashing again takes longer. False: cancelled.
bool AwaitSettled(const Clock& clock, const FileStamps& stamps, int64_t bytes,
                  absl::FunctionRef<bool(int64_t done, int64_t total)> keep_going) {
  if (bytes < kWorthWaiting || stamps.newest_ns > WallNs(clock)) return true;
  while (!IsSettled(stamps, WallNs(clock))) {
    if (!keep_going(0, bytes)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> WeightsHashBy(const Clock& clock, const std::string& directory,
                                          const std::string& cache_dir,
                                          absl::FunctionRef<bool(int64_t done, int64_t total)> keep_going) {
  ROPELAB_ASSIGN_OR_RETURN(const ShardList shards, FindShards(directory));
  ROPELAB_ASSIGN_OR_RETURN(FileStamps stamps, StampFiles(directory, shards.files));
  const std::string path = cache_dir.empty() ? std::string() : HashCachePath(directory, cache_dir);
  if (!path.empty()) {
    if (const std::optional<std::string> cached = ReadHashCache(path, stamps)) return *cached;
  }
  const int64_t bytes = BytesOf(directory, shards.files);
  if (!keep_going(0, bytes)) return Cancelled(directory, 0, bytes);
  if (!path.empty()) {
    WriteOutChanges(directory, shards.files);
    ROPELAB_ASSIGN_OR_RETURN(stamps, StampFiles(directory, shards.files));
    if (!AwaitSettled(clock, stamps, bytes, keep_going)) return Cancelled(directory, 0, bytes);
  }
  const bool settled = IsSettled(stamps, WallNs(clock));
  ROPELAB_ASSIGN_OR_RETURN(const std::string hash, HashTensors(directory, keep_going));
  ROPELAB_ASSIGN_OR_RETURN(const FileStamps after, StampFiles(directory, shards.files));
  if (after.text != stamps.text) {
    return absl::AbortedError(absl::StrCat(directory, ": a shard changed while it was hashed (", stamps.text,
                                           " became ", after.text, "); try again when the copy is done"));
  }
  if (!path.empty() && settled) WriteHashCache(path, stamps, hash);
  return hash;
}

absl::StatusOr<std::string> WeightsHash(const std::string& directory, const std::string& cache_dir,
                                        absl::FunctionRef<bool(int64_t done, int64_t total)> keep_going) {
  return WeightsHashBy(Clock::Real(), directory, cache_dir, keep_going);
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
  ROPELAB_ASSIGN_OR_RETURN(FileStamps stamps, StampFiles(directory, files));
  return std::move(stamps.text);
}

}  // namespace ropelab::formats
