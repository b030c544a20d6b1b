// What clients see of the live state.
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/api/coordinator_impl.h"

namespace ropelab::api {

std::string CoordinatorImpl::WaitingReason(const LiveEntry& entry, std::string* label) {
  switch (entry.phase) {
    case LiveEntry::Phase::kAwaiting:
      *label = "awaiting";
      return entry.reason;
    case LiveEntry::Phase::kHashing:
      *label = "hashing";
      return entry.reason;
    case LiveEntry::Phase::kPlanning:
      *label = "planning";
      return entry.reason;
    case LiveEntry::Phase::kReducing:
      *label = "reducing";
      return entry.reason;
    case LiveEntry::Phase::kMeasuring:
      break;
  }
  schedule::Waiting waiting = scheduler_.WhyWaiting(entry.row.id, Now());
  *label = schedule::NameOf(waiting.kind);
  if (waiting.kind == schedule::Waiting::Kind::kNoModel) {
    for (const auto& [id, link] : links_) {
      if (link.hashes_asked.contains(waiting.model)) {
        *label = "hashing";
        return absl::StrCat("hashing weights of ", waiting.model, " on worker ", link.hello.worker_id());
      }
      if (const auto failed = link.hash_problems.find(waiting.model); failed != link.hash_problems.end()) {
        return absl::StrCat("worker ", link.hello.worker_id(), " cannot hash the weights of ", waiting.model,
                            ": ", failed->second);
      }
    }
    if (!waiting.held_otherwise) {
      absl::StrAppend(&waiting.sentence, LastSeen(waiting.model));
    }
  }
  return waiting.sentence;
}

LiveExperiment CoordinatorImpl::Live(int64_t experiment) {
  LiveExperiment live;
  RunAndWait([&] { live = Describe(experiment); });
  return live;
}

LiveExperiment CoordinatorImpl::Describe(int64_t experiment) {
  LiveExperiment live;
  const LiveEntry* entry = FindEntry(experiment);
  if (entry == nullptr) {
    return live;
  }
  std::string label;
  live.reason = WaitingReason(*entry, &label);
  live.tasks_running = scheduler_.RunningTasks(experiment);
  live.running_progress = scheduler_.RunningProgress(experiment);
  if (entry->finished_here > 0 && entry->busy_ns > 0) {
    const double seconds = static_cast<double>(entry->busy_ns) * 1e-9;
    const double left = static_cast<double>(scheduler_.UnfinishedTasks(experiment)) - live.running_progress;
    live.seconds_left = seconds / static_cast<double>(entry->finished_here) * left;
  }
  return live;
}

std::vector<v1::ConnectedWorker> CoordinatorImpl::Workers() {
  std::vector<v1::ConnectedWorker> workers;
  RunAndWait([&] {
    for (const auto& [id, link] : links_) {
      if (link.epoch == 0) {
        continue;
      }
      v1::ConnectedWorker& worker = workers.emplace_back();
      worker.set_id(link.hello.worker_id());
      worker.set_incarnation(link.hello.incarnation());
      worker.set_build(link.hello.build());
      *worker.mutable_device() = link.hello.device();
      *worker.mutable_numerics() = link.hello.numerics();
      worker.set_connected_microseconds(link.connected_us);
      worker.set_tasks_finished(link.tasks_finished);
      *worker.mutable_labels() = link.hello.labels();
      worker.set_loaded_model(LoadedModel(link));
      for (const auto& [name, model] : link.models) {
        if (model.problem().empty()) {
          worker.add_models(name);
        }
      }
      for (const auto& [task, lease] : scheduler_.leases().all()) {
        if (lease.epoch == link.epoch && lease.attached && lease.phase != schedule::LeasePhase::kAhead &&
            !(lease.ahead && lease.phase == schedule::LeasePhase::kOpening)) {
          worker.set_task(task);
        }
      }
      worker.set_state(link.state == schedule::SessionState::kDraining ? "draining"
                       : worker.task() != 0                            ? "running"
                                                                       : "idle");
    }
  });
  return workers;
}

std::vector<Holding> CoordinatorImpl::Holdings() {
  std::vector<Holding> holdings;
  RunAndWait([&] {
    for (const auto& [id, link] : links_) {
      if (link.epoch == 0) {
        continue;
      }
      const std::string loaded = LoadedModel(link);
      for (const auto& [name, model] : link.models) {
        if (model.problem().empty()) {
          holdings.push_back({link.hello.worker_id(), name, model.config_hash(), model.tokenizer_hash(),
                              model.weights_hash(), name == loaded});
        }
      }
    }
  });
  return holdings;
}

std::string CoordinatorImpl::LoadedModel(const Link& link) const {
  if (!link.loaded_model.empty()) {
    return link.loaded_model;
  }
  for (const auto& [name, model] : link.models) {
    if (!link.hello.loaded_model().empty() && model.weights_hash() == link.hello.loaded_model()) {
      return name;
    }
  }
  return "";
}

int64_t CoordinatorImpl::Subscribe(int64_t experiment, std::function<void()> changed) {
  MutexLock lock(&subscriptions_mutex_);
  const int64_t handle = next_subscription_++;
  subscriptions_[handle] = {experiment, std::move(changed)};
  return handle;
}

void CoordinatorImpl::Unsubscribe(int64_t handle) {
  MutexLock lock(&subscriptions_mutex_);
  subscriptions_.erase(handle);
}

// Under the lock: after Unsubscribe returned, the callback is not called any more.
void CoordinatorImpl::NotifyChanged(int64_t experiment) {
  MutexLock lock(&subscriptions_mutex_);
  for (const auto& [handle, subscription] : subscriptions_) {
    if (subscription.experiment == experiment) {
      subscription.changed();
    }
  }
}

void CoordinatorImpl::UpdateGauges() {
  std::map<std::pair<std::string, std::string>, double> depth;
  for (const auto& [id, entry] : experiments_) {
    std::string label;
    WaitingReason(entry, &label);
    depth[{entry.row.priority, label}] += static_cast<double>(scheduler_.UnfinishedTasks(id));
  }
  metrics_.QueueDepth(depth);
  std::map<std::string, double> workers;
  for (const auto& [id, link] : links_) {
    if (link.epoch == 0) {
      continue;
    }
    bool runs = false;
    for (const auto& [task, lease] : scheduler_.leases().all()) {
      runs = runs || (lease.epoch == link.epoch && lease.attached);
    }
    ++workers[link.state == schedule::SessionState::kDraining ? "draining" : runs ? "running" : "idle"];
  }
  std::set<std::string> lost;
  for (const auto& [task, lease] : scheduler_.leases().all()) {
    if (!lease.attached) {
      lost.insert(lease.worker);
    }
  }
  workers["lost"] = static_cast<double>(lost.size());
  metrics_.Workers(workers);
}

}  // namespace ropelab::api
