#include "worker/formats/safetensors_writer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/formats/safetensors.h"

namespace ropelab::formats {
namespace {

constexpr size_t kDataAlignment = 64;

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Header(const std::vector<NamedTensor>& tensors) {
  std::string header = "{";
  size_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    absl::StrAppend(&header, header.size() > 1 ? "," : "", Quoted(tensor.name),
                    ":{\"dtype\":", Quoted(tensor.dtype), ",\"shape\":[", absl::StrJoin(tensor.shape, ","),
                    "],\"data_offsets\":[", offset, ",", offset + tensor.bytes.size(), "]}");
    offset += tensor.bytes.size();
  }
  header += "}";
  const size_t used = (8 + header.size()) % kDataAlignment;
  header.append(used == 0 ? 0 : kDataAlignment - used, ' ');
  return header;
}

absl::Status SystemError(const std::string& path, const char* action) {
  return absl::InternalError(absl::StrCat(path, ": cannot ", action, ": ", std::strerror(errno)));
}

absl::Status WriteAndSync(int fd, const std::string& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(path, "write");
    text.remove_prefix(static_cast<size_t>(written));
  }
  if (fchmod(fd, 0644) != 0) return SystemError(path, "set the mode");
  return fsync(fd) == 0 ? absl::OkStatus() : SystemError(path, "sync");
}

}  // namespace

std::string SerializeSafetensors(const std::vector<NamedTensor>& tensors) {
  const std::string header = Header(tensors);
  size_t size = 8 + header.size();
  for (const NamedTensor& tensor : tensors) size += tensor.bytes.size();
  std::string file;
  file.reserve(size);
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>((header.size() >> (8 * i)) & 0xff));
  file += header;
  for (const NamedTensor& tensor : tensors) file += tensor.bytes;
  return file;
}

absl::Status WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names;
  for (const NamedTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", tensor.name, " is given twice"));
    }
    ROPELAB_ASSIGN_OR_RETURN(const int64_t expected, TensorBytes(tensor.dtype, tensor.shape));
    if (expected != static_cast<int64_t>(tensor.bytes.size())) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", tensor.name, " has ",
                                                     tensor.bytes.size(), " bytes, its shape and dtype need ",
                                                     expected));
    }
  }
  return WriteFileAtomically(path, SerializeSafetensors(tensors));
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view text) {
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return SystemError(temporary, "create");
  absl::Status status = WriteAndSync(fd, temporary, text);
  if (close(fd) != 0 && status.ok()) status = SystemError(temporary, "close");
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0)
    status = SystemError(path, "rename to");
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const int directory = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    fsync(directory);
    close(directory);
  }
  return absl::OkStatus();
}

}  // namespace ropelab::formats
