#include "server/api/work_pool.h"

#include <utility>

namespace ropelab::api {

WorkPool::WorkPool(int threads, size_t limit) : limit_(limit) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Loop(); });
  }
}

WorkPool::~WorkPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

bool WorkPool::Run(absl::AnyInvocable<void()> job) {
  {
    MutexLock lock(&mutex_);
    if (jobs_.size() >= limit_) {
      return false;
    }
    jobs_.push_back(std::move(job));
  }
  wake_.NotifyOne();
  return true;
}

void WorkPool::Continue(absl::AnyInvocable<void()> job) {
  {
    MutexLock lock(&mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.NotifyOne();
}

void WorkPool::Loop() {
  while (true) {
    absl::AnyInvocable<void()> job;
    {
      MutexLock lock(&mutex_);
      while (jobs_.empty() && !stopping_) {
        wake_.Wait(&mutex_);
      }
      if (jobs_.empty()) {
        return;
      }
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace ropelab::api
