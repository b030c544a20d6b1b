#include "server/store/artifact_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "server/store/errors.h"
#include "server/store/file_io.h"

namespace ropelab::store {
namespace {

constexpr int64_t kHashedAtOnce = 1 << 20;

absl::Status CheckName(const std::string& sha256) {
  const bool hex = std::all_of(sha256.begin(), sha256.end(),
                               [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (sha256.size() == 64 && hex) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("artifact \"", sha256.substr(0, 80), "\" is not a SHA-256 in 64 lower-case hex digits"));
}

bool Exists(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

absl::StatusOr<File> OpenStored(const std::string& path) {
  absl::StatusOr<File> file = File::Open(path, O_RDONLY);
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(absl::StrCat("the stored file ", path, " is gone: put it back from a backup"));
  }
  return file;
}

absl::Status Damaged(const std::string& path) {
  return absl::DataLossError(absl::StrCat("the stored file ", path,
                                          " is damaged, its content does not have the SHA-256 that names it: "
                                          "put it back from a backup"));
}

int HexDigit(char c) {
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

}  // namespace

ArtifactFiles::ArtifactFiles(std::string folder) : folder_(std::move(folder)) {}

std::string ArtifactFiles::PathOf(const std::string& sha256) const {
  return absl::StrCat(folder_, "/", sha256.substr(0, 2), "/", sha256);
}

std::string ArtifactFiles::UploadPath(const std::string& upload) const {
  // Hashed, since the name may hold anything.
  return absl::StrCat(folder_, "/unfinished/", Sha256Hex(upload));
}

bool ArtifactFiles::Has(const std::string& sha256) const {
  return CheckName(sha256).ok() && Exists(PathOf(sha256));
}

absl::StatusOr<bool> ArtifactFiles::HasDurably(const std::string& sha256) {
  ROPELAB_RETURN_IF_ERROR(CheckName(sha256));
  const std::string path = PathOf(sha256);
  if (!Exists(path)) return false;
  MutexLock lock(&publish_mutex_);
  if (!Exists(path)) return false;
  // A process that died between rename and sync may have left the name: once per folder and process, sync it.
  bool& synced = shard_synced_[HexDigit(sha256[0]) * 16 + HexDigit(sha256[1])];
  if (!synced) {
    ROPELAB_RETURN_IF_ERROR(SyncFolder(path.substr(0, path.rfind('/'))));
    ROPELAB_RETURN_IF_ERROR(SyncFolder(folder_));
    synced = true;
  }
  return true;
}

absl::Status ArtifactFiles::Publish(const std::string& from, const std::string& sha256) {
  const std::string to = PathOf(sha256);
  const std::string shard = to.substr(0, to.rfind('/'));
  MutexLock lock(&publish_mutex_);
  if (mkdir(shard.c_str(), 0755) == 0) {
    ROPELAB_RETURN_IF_ERROR(SyncFolder(folder_));
  } else if (errno != EEXIST) {
    return FileError("making", shard, errno);
  }
  if (rename(from.c_str(), to.c_str()) != 0) return FileError("naming", to, errno);
  if (absl::Status synced = SyncFolder(shard); !synced.ok()) {
    unlink(to.c_str());  // nobody may take it for durable
    return synced;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ArtifactFiles::Put(std::string_view bytes) {
  std::string sha256 = Sha256Hex(bytes);
  ROPELAB_ASSIGN_OR_RETURN(const bool there, HasDurably(sha256));
  if (there) return sha256;
  static std::atomic<int64_t> puts{0};
  const std::string upload = absl::StrCat("put ", puts.fetch_add(1), " ", sha256);
  absl::Status stored = Append(upload, 0, bytes);
  if (stored.ok()) {
    ROPELAB_ASSIGN_OR_RETURN(File file, File::Open(UploadPath(upload), O_RDWR));
    stored = file.Sync();
  }
  if (stored.ok()) stored = Publish(UploadPath(upload), sha256);
  if (!stored.ok()) {
    Abandon(upload);
    return stored;
  }
  return sha256;
}

absl::Status ArtifactFiles::Append(const std::string& upload, int64_t offset, std::string_view data) {
  ROPELAB_ASSIGN_OR_RETURN(File file, File::Open(UploadPath(upload), O_RDWR | O_CREAT));
  if (offset == 0) {
    ROPELAB_RETURN_IF_ERROR(file.Truncate(0));
  } else {
    ROPELAB_ASSIGN_OR_RETURN(const int64_t size, file.Size());
    if (size != offset) {
      return absl::OutOfRangeError(absl::StrCat("a piece of upload ", upload, " starts at byte ", offset,
                                                " but the upload stands at ", size,
                                                ": go on there or start at 0"));
    }
  }
  return file.WriteAt(offset, data);
}

absl::StatusOr<int64_t> ArtifactFiles::Finish(const std::string& upload, const std::string& sha256) {
  ROPELAB_ASSIGN_OR_RETURN(const bool there, HasDurably(sha256));
  if (there) {
    Abandon(upload);
    ROPELAB_ASSIGN_OR_RETURN(const File stored, File::Open(PathOf(sha256), O_RDONLY));
    return stored.Size();
  }
  ROPELAB_ASSIGN_OR_RETURN(File file, File::Open(UploadPath(upload), O_RDWR));
  ROPELAB_ASSIGN_OR_RETURN(const int64_t size, file.Size());
  Sha256 hash;
  for (int64_t at = 0; at < size; at += kHashedAtOnce) {
    ROPELAB_ASSIGN_OR_RETURN(const std::string piece, file.ReadAt(at, kHashedAtOnce));
    hash.Update(piece);
  }
  if (const std::string found = hash.FinishHex(); found != sha256) {
    Abandon(upload);
    return absl::InvalidArgumentError(absl::StrCat("upload ", upload, " of ", size, " bytes has SHA-256 ",
                                                   found, ", announced was ", sha256,
                                                   ": send it again from byte 0"));
  }
  ROPELAB_RETURN_IF_ERROR(file.Sync());
  ROPELAB_RETURN_IF_ERROR(Publish(UploadPath(upload), sha256));
  return size;
}

void ArtifactFiles::Abandon(const std::string& upload) {
  unlink(UploadPath(upload).c_str());
}

absl::StatusOr<std::string> ArtifactFiles::Get(const std::string& sha256) const {
  ROPELAB_RETURN_IF_ERROR(CheckName(sha256));
  ROPELAB_ASSIGN_OR_RETURN(const File file, OpenStored(PathOf(sha256)));
  ROPELAB_ASSIGN_OR_RETURN(const int64_t size, file.Size());
  ROPELAB_ASSIGN_OR_RETURN(std::string bytes, file.ReadAt(0, size));
  if (Sha256Hex(bytes) != sha256) return Damaged(PathOf(sha256));
  return bytes;
}

absl::Status ArtifactFiles::Check(const std::string& sha256) const {
  Sha256 hash;
  ROPELAB_RETURN_IF_ERROR(ForEachChunk(sha256, kHashedAtOnce, [&](std::string_view chunk) {
    hash.Update(chunk);
    return absl::OkStatus();
  }));
  return hash.FinishHex() == sha256 ? absl::OkStatus() : Damaged(PathOf(sha256));
}

absl::Status ArtifactFiles::ForEachChunk(const std::string& sha256, int64_t chunk_bytes,
                                         absl::FunctionRef<absl::Status(std::string_view)> visit) const {
  ROPELAB_RETURN_IF_ERROR(CheckName(sha256));
  ROPELAB_ASSIGN_OR_RETURN(const File file, OpenStored(PathOf(sha256)));
  for (int64_t at = 0;; at += chunk_bytes) {
    ROPELAB_ASSIGN_OR_RETURN(const std::string chunk, file.ReadAt(at, chunk_bytes));
    if (chunk.empty()) return absl::OkStatus();
    ROPELAB_RETURN_IF_ERROR(visit(chunk));
  }
}

absl::Status ArtifactFiles::RemoveUnfinished() {
  const std::string unfinished = absl::StrCat(folder_, "/unfinished");
  std::error_code error;
  std::filesystem::remove_all(unfinished, error);
  if (!error) std::filesystem::create_directories(unfinished, error);
  if (error) return FileError("emptying", unfinished, error.value());
  return SyncFolder(folder_ + "/..");  // the folder itself may be new
}

}  // namespace ropelab::store
