#include "server/store/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/status_macros.h"
#include "server/store/errors.h"

namespace ropelab::store {

File::File(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}
File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<File> File::Open(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor < 0) return FileError("opening", path, errno);
  return File(descriptor, path);
}

absl::Status File::WriteAt(int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("writing", path_, errno);
    bytes.remove_prefix(written);
    offset += written;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> File::ReadAt(int64_t offset, int64_t bytes) const {
  std::string read(bytes, '\0');
  int64_t filled = 0;
  while (filled < bytes) {
    const ssize_t got = pread(descriptor_, read.data() + filled, bytes - filled, offset + filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("reading", path_, errno);
    if (got == 0) break;
    filled += got;
  }
  read.resize(filled);
  return read;
}

absl::StatusOr<int64_t> File::Size() const {
  struct stat facts;
  if (fstat(descriptor_, &facts) != 0) return FileError("examining", path_, errno);
  return static_cast<int64_t>(facts.st_size);
}

absl::Status File::Truncate(int64_t bytes) {
  if (ftruncate(descriptor_, bytes) != 0) return FileError("truncating", path_, errno);
  return absl::OkStatus();
}

absl::Status File::Sync() {
  if (fdatasync(descriptor_) != 0) return FileError("syncing", path_, errno);
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::string& folder) {
  ROPELAB_ASSIGN_OR_RETURN(const File opened, File::Open(folder, O_RDONLY | O_DIRECTORY));
  if (fsync(opened.descriptor()) != 0) return FileError("syncing", folder, errno);
  return absl::OkStatus();
}

}  // namespace ropelab::store
