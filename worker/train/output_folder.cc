#include "worker/train/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace ropelab::train {
namespace {

constexpr std::string_view kWrittenFiles[] = {"model.safetensors", "config.json",    "tokenizer.json",
                                              "curve.csv",         "evaluation.csv", "checkpoints.csv"};
constexpr size_t kSuffixLength = 6;  // of formats::WriteFileAtomically's temporary files, after a dot

absl::Status FolderError(const std::filesystem::path& path, const char* what, int error) {
  const std::string message = absl::StrCat(path.string(), ": ", what, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(absl::StrCat(message, "; make room there and start again"));
    case EACCES:
    case EEXIST:
    case EINVAL:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOENT:
    case ENOTDIR:
    case EPERM:
    case EROFS:
      return absl::InvalidArgumentError(absl::StrCat(message, "; give another --out"));
    default:
      return absl::InternalError(message);
  }
}

bool IsThere(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// "model.safetensors.x3Kq9Z". Six small letters are left alone: they may be a word (curve.csv.backup).
bool IsTemporary(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.size() <= kSuffixLength + 1) return false;
  const std::string_view suffix = name.substr(name.size() - kSuffixLength);
  const std::string_view file = name.substr(0, name.size() - kSuffixLength - 1);
  if (name[file.size()] != '.') return false;
  if (std::find(std::begin(kWrittenFiles), std::end(kWrittenFiles), file) == std::end(kWrittenFiles))
    return false;
  return std::all_of(suffix.begin(), suffix.end(), [&](char c) { return letter(c) || digit(c); }) &&
         !std::all_of(suffix.begin(), suffix.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

std::vector<std::filesystem::path> EntriesOf(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(folder, error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    entries.push_back(at->path());
  }
  return entries;
}

void RemoveTemporariesIn(const std::filesystem::path& folder) {
  for (const std::filesystem::path& path : EntriesOf(folder)) {
    std::error_code error;
    if (!IsTemporary(path.filename().string())) continue;
    if (std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) {
      std::filesystem::remove(path, error);
    }
  }
}

}  // namespace

absl::Status MakeFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? FolderError(folder, "cannot be made", error.value()) : absl::OkStatus();
}

absl::StatusOr<OutputFolder> OutputFolder::Claim(const std::string& out, const std::string& name) {
  if (out.empty()) return absl::InvalidArgumentError("--out: is empty; name a directory");
  OutputFolder folder(out, name);
  if (folder.model() == folder.state() || folder.model() == folder.checkpoints()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "name: ", name, " is a folder that the trainer keeps beside the model; give the model another"));
  }
  // A training saves its first state before it writes anything else.
  if (!IsThere(folder.state() / "model.safetensors")) {
    for (const auto& file : {folder.model() / "model.safetensors", folder.model() / "curve.csv",
                             folder.checkpoints() / "checkpoints.csv"}) {
      if (!IsThere(file)) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          file.string(), ": is there without the state of its training, and would be overwritten; ",
          folder.BeginAgain()));
    }
  }
  ROPELAB_RETURN_IF_ERROR(MakeFolder(folder.state()));
  ROPELAB_RETURN_IF_ERROR(folder.Lock());
  ROPELAB_RETURN_IF_ERROR(MakeFolder(folder.model()));
  folder.RemoveLitter();
  return folder;
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : out_(std::move(other.out_)), name_(std::move(other.name_)), lock_(std::exchange(other.lock_, -1)) {}

OutputFolder::~OutputFolder() {
  if (lock_ >= 0) close(lock_);
}

std::string OutputFolder::BeginAgain() const {
  return absl::StrCat("give another --out, or remove ", state().string(), ", ", model().string(), " and ",
                      checkpoints().string(), " to begin again");
}

absl::Status OutputFolder::Lock() {
  const std::filesystem::path path = state() / "lock";
  lock_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (lock_ < 0) return FolderError(path, "cannot be opened", errno);
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return FolderError(path, "cannot be locked", errno);
  return absl::FailedPreconditionError(absl::StrCat(
      out_.string(), ": another ropelab-train writes there; wait until it has ended, or give another --out"));
}

void OutputFolder::RemoveLitter() const {
  RemoveTemporariesIn(state());
  RemoveTemporariesIn(model());
  RemoveTemporariesIn(checkpoints());
  for (const std::filesystem::path& folder : EntriesOf(checkpoints())) {
    if (folder.filename().string().starts_with(name_ + "-")) RemoveTemporariesIn(folder);
  }
}

}  // namespace ropelab::train
