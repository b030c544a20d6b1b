#include "worker/formats/checkpoint.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/safetensors.h"
#include "worker/formats/shards.h"

namespace ropelab::formats {

// One file's pages, unmapped with the object.
struct Checkpoint::Mapping {
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : address(std::exchange(other.address, nullptr)), size(std::exchange(other.size, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address, other.address);
    std::swap(size, other.size);
    return *this;
  }
  ~Mapping() {
    if (address != nullptr) munmap(address, size);
  }
  std::string_view view() const { return {static_cast<const char*>(address), size}; }

  static absl::StatusOr<Mapping> Of(const std::string& path) {
    // Not blocking: opening a named pipe would else wait for a writer.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    if (fd < 0) {
      return absl::PermissionDeniedError(absl::StrCat(path, ": cannot be opened: ", std::strerror(errno),
                                                      "; let the worker's user read it"));
    }
    Mapping mapping;
    absl::Status status = mapping.Map(fd, path);
    close(fd);
    if (!status.ok()) return status;
    return mapping;
  }

  void* address = nullptr;
  size_t size = 0;

 private:
  absl::Status Map(int fd, const std::string& path) {
    struct stat file {};
    if (fstat(fd, &file) != 0) {
      return absl::InternalError(absl::StrCat(path, ": cannot be looked at: ", std::strerror(errno)));
    }
    if (!S_ISREG(file.st_mode))
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": is not a regular file; put the checkpoint's file there"));
    if (file.st_size == 0) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is empty; copy it again"));
    }
    void* pages = mmap(nullptr, static_cast<size_t>(file.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (pages == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": cannot map ", file.st_size, " bytes: ", std::strerror(errno)));
    }
    address = pages;
    size = static_cast<size_t>(file.st_size);
    return absl::OkStatus();
  }
};

Checkpoint::Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& directory) {
  ROPELAB_ASSIGN_OR_RETURN(const ShardList shards, FindShards(directory));
  Checkpoint checkpoint;
  for (const std::string& file : shards.files) {
    const std::string path = (std::filesystem::path(directory) / file).string();
    absl::StatusOr<Mapping> opened = Mapping::Of(path);
    if (absl::IsNotFound(opened.status()) && !shards.placed.empty()) {
      return absl::NotFoundError(
          absl::StrCat(opened.status().message(), ", and the index names it; copy the checkpoint again"));
    }
    ROPELAB_RETURN_IF_ERROR(opened.status());
    Mapping mapping = *std::move(opened);
    ROPELAB_ASSIGN_OR_RETURN(std::vector<TensorRange> ranges, ParseSafetensorsHeader(mapping.view(), path));
    for (TensorRange& range : ranges) {
      checkpoint.tensors_.push_back({std::move(range.name), std::move(range.dtype), std::move(range.shape),
                                     file, mapping.view().substr(range.begin, range.end - range.begin)});
    }
    checkpoint.mappings_.push_back(std::move(mapping));
  }
  std::sort(checkpoint.tensors_.begin(), checkpoint.tensors_.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  for (size_t i = 1; i < checkpoint.tensors_.size(); ++i) {
    const TensorEntry& first = checkpoint.tensors_[i - 1];
    const TensorEntry& second = checkpoint.tensors_[i];
    if (first.name == second.name) {
      return absl::InvalidArgumentError(absl::StrCat(directory, ": tensor ", first.name, " is in ",
                                                     first.file, " and in ", second.file, "; keep one"));
    }
  }
  for (const auto& [tensor, file] : shards.placed) {
    const TensorEntry* entry = checkpoint.Find(tensor);
    if (entry == nullptr || entry->file != file) {
      return absl::InvalidArgumentError(absl::StrCat(
          directory, ": the index places tensor ", tensor, " in ", file, ", which does not hold it",
          entry == nullptr ? std::string() : absl::StrCat(" (", entry->file, " does)"), "; copy both again"));
    }
  }
  return checkpoint;
}

const TensorEntry* Checkpoint::Find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

int64_t Checkpoint::bytes() const {
  int64_t total = 0;
  for (const TensorEntry& entry : tensors_) total += static_cast<int64_t>(entry.bytes.size());
  return total;
}

}  // namespace ropelab::formats
