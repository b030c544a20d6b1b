// An annotated mutex over std::mutex, which both Clang's thread-safety analysis and TSan understand.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define ROPELAB_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define ROPELAB_THREAD_ANNOTATION(x)
#endif

#define ROPELAB_CAPABILITY(name) ROPELAB_THREAD_ANNOTATION(capability(name))
#define ROPELAB_SCOPED_CAPABILITY ROPELAB_THREAD_ANNOTATION(scoped_lockable)
#define ROPELAB_GUARDED_BY(mutex) ROPELAB_THREAD_ANNOTATION(guarded_by(mutex))
#define ROPELAB_REQUIRES(...) ROPELAB_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define ROPELAB_EXCLUDES(...) ROPELAB_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ROPELAB_ACQUIRE(...) ROPELAB_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define ROPELAB_RELEASE(...) ROPELAB_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

namespace ropelab {

class ROPELAB_CAPABILITY("mutex") Mutex {
 public:
  void Lock() ROPELAB_ACQUIRE() { mutex_.lock(); }
  void Unlock() ROPELAB_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ROPELAB_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ROPELAB_ACQUIRE(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() ROPELAB_RELEASE() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* mutex_;
};

class CondVar {
 public:
  // Wakes spuriously as well: wait in a loop.
  void Wait(Mutex* mutex) ROPELAB_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False when the time ran out.
  bool WaitFor(Mutex* mutex, std::chrono::nanoseconds timeout) ROPELAB_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool woken = condition_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace ropelab
