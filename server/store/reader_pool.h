// Read-only connections, lent one by one; made when all are in use, kept up to a handful.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "server/store/connection.h"

namespace ropelab::store {

class ReaderPool {
 public:
  explicit ReaderPool(std::string path);
  absl::StatusOr<Connection> Borrow();
  void GiveBack(Connection connection);
  // Closes the idle ones; those in use close when they come back.
  void Close();

 private:
  const std::string path_;
  Mutex mutex_;
  std::vector<Connection> idle_ ROPELAB_GUARDED_BY(mutex_);
  bool closed_ ROPELAB_GUARDED_BY(mutex_) = false;
};

}  // namespace ropelab::store
