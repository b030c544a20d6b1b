#include "worker/session/worker_id.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ropelab::session {
namespace {

constexpr int kMostWorkers = 1024;

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "host";
  return name;
}

}  // namespace

absl::StatusOr<WorkerId> WorkerId::Claim(const std::string& given, const std::string& device,
                                         const std::string& lock_dir) {
  if (!given.empty()) return WorkerId(given, -1);
  std::string file_device = device;
  std::replace(file_device.begin(), file_device.end(), ':', '-');
  std::replace(file_device.begin(), file_device.end(), '/', '-');
  for (int ordinal = 0; ordinal < kMostWorkers; ++ordinal) {
    const std::string path = absl::StrCat(lock_dir, "/ropelab-worker-", file_device, "-", ordinal, ".lock");
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    // Another user's file counts as taken: the number only has to be free.
    if (file < 0) continue;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
      return WorkerId(absl::StrCat(HostName(), "/", device, "/", ordinal), file);
    }
    close(file);
  }
  return absl::UnavailableError(
      absl::StrCat("no worker number could be claimed by a lock file in ", lock_dir, "; give --id NAME"));
}

WorkerId::WorkerId(WorkerId&& other) noexcept
    : name_(std::move(other.name_)), lock_(std::exchange(other.lock_, -1)) {}

WorkerId& WorkerId::operator=(WorkerId&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(lock_, other.lock_);
  return *this;
}

WorkerId::~WorkerId() {
  if (lock_ >= 0) close(lock_);
}

}  // namespace ropelab::session
