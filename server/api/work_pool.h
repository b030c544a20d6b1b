// A few threads that do what gRPC's own threads must not: wait for the store, or for a slow reader.
#pragma once

#include <cstddef>
#include <deque>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/mutex.h"

namespace ropelab::api {

class WorkPool {
 public:
  // At most `limit` jobs wait; `threads` run.
  WorkPool(int threads, size_t limit);
  // Runs what is queued, then joins. Nothing may call Run any more.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Queues `job`; any thread, never blocks. False, and the job is dropped unrun, when the queue is full. Jobs
  // do not throw.
  [[nodiscard]] bool Run(absl::AnyInvocable<void()> job);
  // The same without the limit: for the last step of a request that was let in already.
  void Continue(absl::AnyInvocable<void()> job);

 private:
  void Loop();

  const size_t limit_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<absl::AnyInvocable<void()>> jobs_ ROPELAB_GUARDED_BY(mutex_);
  bool stopping_ ROPELAB_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace ropelab::api
