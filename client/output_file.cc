#include "client/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ropelab::client {

OutputFile::OutputFile(std::string path, std::string temporary, int descriptor)
    : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  struct stat existing {};
  if (stat(path.c_str(), &existing) == 0 && S_ISDIR(existing.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory: name a file in it"));
  }
  std::string temporary = absl::StrCat(path, ".", getpid(), ".part");
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
  }
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(temporary), descriptor));
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
  if (!temporary_.empty()) {
    unlink(temporary_.c_str());
  }
}

absl::Status OutputFile::Error(const std::string& what) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ": ", what, ": ", std::strerror(errno)));
}

absl::Status OutputFile::Write(std::string_view bytes) {
  bytes_ += static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return Error("cannot be written");
    }
    bytes.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (fsync(descriptor_) != 0) {
    return Error("cannot be synced");
  }
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) {
    return Error("cannot be closed");
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return Error("cannot be replaced");
  }
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace ropelab::client
