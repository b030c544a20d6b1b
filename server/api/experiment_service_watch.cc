#include "server/api/experiment_service_watch.h"

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/status_macros.h"
#include "server/api/experiment_service_describe.h"
#include "server/api/rpc_status.h"

namespace ropelab::api {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

SteadyTime Now() {
  return std::chrono::steady_clock::now();
}

class Hub;

// One client's stream. Fields marked (hub) are guarded by the hub's mutex. A watch is busy from the moment
// that a job for it is queued until its event is written; gRPC's Finish is called once, by whoever sets
// `finishing`.
class Watch : public grpc::ServerWriteReactor<v1::WatchEvent> {
 public:
  Watch(Hub* hub, int64_t key, std::string id) : hub_(hub), key_(key), id_(std::move(id)), opened_(Now()) {}

  // On the pool, while busy. The first also finds and subscribes the experiments.
  void Push();

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void End(const absl::Status& status);

  bool busy = true;             // (hub)
  bool finishing = false;       // (hub)
  bool cancelled = false;       // (hub)
  bool dirty = false;           // (hub)
  SteadyTime earliest, latest;  // (hub) of the next event

 private:
  absl::Status Snapshot();
  absl::Status Begin();

  Hub* const hub_;
  const int64_t key_;
  const std::string id_;
  const SteadyTime opened_;
  // Touched by one job at a time, and by OnDone.
  std::vector<int64_t> experiments_;
  std::vector<int64_t> subscriptions_;
  v1::WatchEvent event_;
  grpc::StatusCode ended_with_ = grpc::StatusCode::OK;
};

class Hub : public WatchHub {
 public:
  Hub(const ServiceContext& context, const WatchPace& pace)
      : context_(context), pace_(pace), marks_(std::make_shared<Marks>()), thread_([this] { Loop(); }) {}

  ~Hub() override {
    Stop();
    {
      MutexLock lock(&marks_->mutex);
      while (!watches_.empty()) {
        marks_->wake.Wait(&marks_->mutex);
      }
    }
    thread_.join();
  }

  grpc::ServerWriteReactor<v1::WatchEvent>* Open(const std::string& id) override {
    Watch* watch = nullptr;
    bool refused = false;
    {
      MutexLock lock(&marks_->mutex);
      const int64_t key = next_key_++;
      watch = new Watch(this, key, id);  // deletes itself in OnDone
      watches_.emplace(key, watch);
      refused = stopping_;
      watch->finishing = refused;
    }
    if (refused) {
      watch->End(Stopping());
    } else {
      Queue(watch);
    }
    return watch;
  }

  void Stop() override {
    std::vector<Watch*> idle;
    {
      MutexLock lock(&marks_->mutex);
      stopping_ = true;
      for (auto& [key, watch] : watches_) {
        if (!watch->busy && !watch->finishing) {
          watch->finishing = true;
          idle.push_back(watch);
        }
      }
    }
    marks_->wake.NotifyAll();
    for (Watch* watch : idle) {
      watch->End(Stopping());
    }
  }

 private:
  friend class Watch;

  // Shared with the coordinator's callbacks, which may still come while a watch ends.
  struct Marks {
    Mutex mutex;
    CondVar wake;
    std::vector<int64_t> moved
        ROPELAB_GUARDED_BY(mutex);  // keys of watches; each at most once between two rounds
  };

  static absl::Status Stopping() { return absl::UnavailableError("the server is stopping; watch again"); }

  int64_t Subscribe(int64_t experiment, int64_t key) {
    return context_.coordinator->Subscribe(experiment, [marks = marks_, key] {
      MutexLock lock(&marks->mutex);
      if (std::find(marks->moved.begin(), marks->moved.end(), key) == marks->moved.end()) {
        marks->moved.push_back(key);
        marks->wake.NotifyAll();
      }
    });
  }

  void Queue(Watch* watch) {
    context_.requests->Continue([watch] { watch->Push(); });
  }

  void Loop() {
    Mutex& mutex = marks_->mutex;
    MutexLock lock(&mutex);
    while (!stopping_) {
      for (int64_t key : marks_->moved) {
        if (auto found = watches_.find(key); found != watches_.end()) {
          found->second->dirty = true;
        }
      }
      marks_->moved.clear();
      const SteadyTime now = Now();
      SteadyTime next = now + std::chrono::hours(1);
      for (auto& [key, watch] : watches_) {
        if (watch->busy || watch->finishing) {
          continue;
        }
        const SteadyTime due = watch->dirty ? watch->earliest : watch->latest;
        if (due <= now) {
          watch->busy = true;
          watch->dirty = false;
          Queue(watch);  // takes the pool's lock only
        } else {
          next = std::min(next, due);
        }
      }
      if (marks_->moved.empty()) {
        marks_->wake.WaitFor(&mutex, next - now);
      }
    }
  }

  // After a write. True: the watch goes on; false: the caller ends it with `why`.
  bool GoOn(Watch* watch, bool written, absl::Status& why) {
    MutexLock lock(&marks_->mutex);
    if (stopping_ || watch->cancelled || !written) {
      watch->finishing = true;
      why = stopping_ ? Stopping() : absl::CancelledError("the client went away");
      return false;
    }
    watch->busy = false;
    watch->earliest = Now() + pace_.shortest;
    watch->latest = Now() + pace_.longest;
    marks_->wake.NotifyAll();
    return true;
  }

  const ServiceContext context_;
  const WatchPace pace_;
  const std::shared_ptr<Marks> marks_;
  std::map<int64_t, Watch*> watches_;  // guarded by marks_->mutex, like the two below
  int64_t next_key_ = 1;
  bool stopping_ = false;
  std::thread thread_;
};

absl::Status Watch::Begin() {
  ROPELAB_RETURN_IF_ERROR(hub_->context_.store->Read([this](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(experiments_, ExperimentsOfId(db, id_));
    return absl::OkStatus();
  }));
  // Before the first look, so that no change falls between the two.
  for (int64_t experiment : experiments_) {
    subscriptions_.push_back(hub_->Subscribe(experiment, key_));
  }
  return absl::OkStatus();
}

absl::Status Watch::Snapshot() {
  if (experiments_.empty()) {
    ROPELAB_RETURN_IF_ERROR(Begin());
  }
  ROPELAB_ASSIGN_OR_RETURN(std::vector<v1::Experiment> shown,
                           DescribeExperiments(hub_->context_, experiments_));
  event_.Clear();
  bool final = true;
  for (v1::Experiment& experiment : shown) {
    final = final && IsFinalState(experiment.state());
    *event_.add_experiments() = std::move(experiment);
  }
  event_.set_final(final);
  return absl::OkStatus();
}

void Watch::Push() {
  absl::Status status = Snapshot();
  bool end = !status.ok() || event_.final();
  {
    MutexLock lock(&hub_->marks_->mutex);
    if (cancelled) {
      status = absl::CancelledError("the client went away");
      end = true;
    }
    finishing = end;
  }
  if (!end) {
    StartWrite(&event_);
  } else if (status.ok()) {
    StartWriteAndFinish(&event_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    End(status);
  }
}

void Watch::End(const absl::Status& status) {
  ended_with_ = static_cast<grpc::StatusCode>(status.code());
  Finish(ToGrpc(status));
}

void Watch::OnWriteDone(bool ok) {
  absl::Status why;
  if (!hub_->GoOn(this, ok, why)) {
    End(why);
  }
}

void Watch::OnCancel() {
  {
    MutexLock lock(&hub_->marks_->mutex);
    cancelled = true;
    if (busy || finishing) {
      return;  // whoever holds it sees the mark
    }
    finishing = true;
  }
  End(absl::CancelledError("the client went away"));
}

void Watch::OnDone() {
  for (int64_t subscription : subscriptions_) {
    hub_->context_.coordinator->Unsubscribe(subscription);
  }
  hub_->context_.metrics->RpcEnded("Watch", ended_with_, Now() - opened_);
  {
    // The marks outlive the hub, whose destructor may go on as soon as the last watch is out of the map.
    const std::shared_ptr<Hub::Marks> marks = hub_->marks_;
    MutexLock lock(&marks->mutex);
    hub_->watches_.erase(key_);
    marks->wake.NotifyAll();
  }
  delete this;
}

}  // namespace

std::unique_ptr<WatchHub> WatchHub::Create(const ServiceContext& context, const WatchPace& pace) {
  return std::make_unique<Hub>(context, pace);
}

}  // namespace ropelab::api
