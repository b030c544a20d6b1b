#include "server/api/health_service.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"

namespace ropelab::api {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kPeriod(1);
constexpr std::chrono::seconds kStalled(10);

class WatchedHealth : public Health {
 public:
  WatchedHealth(store::Store* store, Coordinator* coordinator)
      : store_(store),
        coordinator_(coordinator),
        answered_(steady_clock::now()),
        thread_([this] { Loop(); }) {}

  ~WatchedHealth() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
    }
    wake_.NotifyAll();
    thread_.join();
  }

  std::string Problem() const override {
    if (store_->disk_full()) {
      return "the disk under the data directory is full: submits are refused and workers pause until there "
             "is space";
    }
    const auto silent = steady_clock::now() - answered_.load();
    if (silent > kStalled) {
      return absl::StrCat("the coordinator has not answered for ",
                          std::chrono::duration_cast<std::chrono::seconds>(silent).count(), " s");
    }
    return "";
  }

  void Tell(grpc::HealthCheckServiceInterface* service) override {
    MutexLock lock(&mutex_);
    told_ = service;
    if (told_ != nullptr) {
      told_->SetServingStatus(Problem().empty());
    }
  }

 private:
  void Loop() {
    while (true) {
      {
        MutexLock lock(&mutex_);
        if (stopping_) {
          return;
        }
        wake_.WaitFor(&mutex_, kPeriod);
        if (stopping_) {
          return;
        }
        if (told_ != nullptr) {
          told_->SetServingStatus(Problem().empty());
        }
      }
      coordinator_->Workers();
      answered_ = steady_clock::now();
    }
  }

  store::Store* const store_;
  Coordinator* const coordinator_;
  std::atomic<steady_clock::time_point> answered_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ROPELAB_GUARDED_BY(mutex_) = false;
  grpc::HealthCheckServiceInterface* told_ ROPELAB_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Health> Health::Watch(store::Store* store, Coordinator* coordinator) {
  return std::make_unique<WatchedHealth>(store, coordinator);
}

}  // namespace ropelab::api
