// The one thread that writes: takes what is queued, runs it in one transaction, commits, then tells everyone.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "server/store/connection.h"
#include "server/store/store.h"

namespace ropelab::store {

class GroupWriter {
 public:
  // `connection` is used by the writer thread alone from here on.
  GroupWriter(Connection connection, int64_t writes_in_flight);
  ~GroupWriter() { Close(); }

  // Blocks while `writes_in_flight` are queued, except on the writer thread itself (from a `done`). After
  // Close, `done` gets UNAVAILABLE at once, on the caller's thread.
  void Write(Store::WriteClosure write, Store::Done done);
  bool OnWriterThread() const { return std::this_thread::get_id() == writer_id_; }
  bool disk_full() const { return disk_full_; }
  // Runs what is queued, then ends the thread. Idempotent; not on the writer thread.
  void Close();

 private:
  struct Queued {
    Store::WriteClosure write;
    Store::Done done;
    absl::Status status;
  };
  void Run();
  void RunGroup(std::vector<Queued>& group);
  absl::Status RunOne(Queued& queued);
  absl::Status Transact(std::vector<Queued>& group);
  void ProbeSpace();

  Connection connection_;
  const size_t writes_in_flight_;
  std::atomic<bool> disk_full_{false};
  std::atomic<std::thread::id> writer_id_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Queued> queue_ ROPELAB_GUARDED_BY(mutex_);
  bool closing_ ROPELAB_GUARDED_BY(mutex_) = false;
  Mutex join_mutex_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace ropelab::store
