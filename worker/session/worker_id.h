// The name under which a worker is known: `--id`, or host/device/ordinal with an ordinal that no other worker
// of this host has.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ropelab::session {

// Holds a lock file while it lives; the kernel gives the lock back when the process dies, however it dies.
class WorkerId {
 public:
  // `given` as it is when not empty. Otherwise claims the first free ordinal by a lock file in `lock_dir`, a
  // directory that all workers of the host share. UNAVAILABLE: no ordinal below 1024 could be claimed.
  static absl::StatusOr<WorkerId> Claim(const std::string& given, const std::string& device,
                                        const std::string& lock_dir);
  WorkerId(WorkerId&& other) noexcept;
  WorkerId& operator=(WorkerId&& other) noexcept;
  ~WorkerId();

  const std::string& name() const { return name_; }

 private:
  WorkerId(std::string name, int lock) : name_(std::move(name)), lock_(lock) {}
  std::string name_;
  int lock_ = -1;
};

}  // namespace ropelab::session
