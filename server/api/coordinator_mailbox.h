// What other threads hand to the coordinator's thread. Outlives the coordinator where a callback still holds
// it: what is posted after Close is dropped unrun.
#pragma once

#include <chrono>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/mutex.h"

namespace ropelab::api {

class Mailbox {
 public:
  using Closure = absl::AnyInvocable<void()>;

  // Any thread; never blocks. False once closed.
  bool Post(Closure closure) {
    MutexLock lock(&mutex_);
    if (closed_) {
      return false;
    }
    closures_.push_back(std::move(closure));
    wake_.NotifyOne();
    return true;
  }

  // Everything posted so far, in order; waits at most `longest` for something to come.
  std::vector<Closure> TakeAll(std::chrono::nanoseconds longest) {
    MutexLock lock(&mutex_);
    if (closures_.empty() && !closed_) {
      wake_.WaitFor(&mutex_, longest);
    }
    std::vector<Closure> taken;
    taken.swap(closures_);
    return taken;
  }

  void Close() {
    std::vector<Closure> dropped;  // destroyed outside the lock
    MutexLock lock(&mutex_);
    closed_ = true;
    dropped.swap(closures_);
    wake_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar wake_;
  std::vector<Closure> closures_ ROPELAB_GUARDED_BY(mutex_);
  bool closed_ ROPELAB_GUARDED_BY(mutex_) = false;
};

}  // namespace ropelab::api
