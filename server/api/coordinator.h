// The server's one mind: a thread that owns the live state (sessions, leases, the queue, experiments in
// motion) and moves it. Everything else hands it events and gets answers back; nothing else decides. It asks
// schedule/ (pure) what to do, the store to make it durable, experiments/ to plan and reduce (on threads of
// its own), and only then speaks to a worker.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "prometheus/registry.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "ropelab/v1/worker_service.pb.h"
#include "server/store/store.h"

namespace ropelab::api {

struct CoordinatorOptions {
  int64_t lease_ms = 30000;
  int64_t heartbeat_ms = 5000;  // at most a third of lease_ms
  int64_t max_attempts = 5;
};

// What the database does not hold: progress of running tasks, why an experiment waits.
struct LiveExperiment {
  std::string reason;  // why it waits; empty while something of it runs
  int64_t tasks_running = 0;
  double running_progress = 0;  // sum over running tasks of done/total
  double seconds_left = -1;
};

// A model that a connected worker announced and can load.
struct Holding {
  std::string worker, name;
  std::string config_hash, tokenizer_hash;
  std::string weights_hash;  // empty: not known yet
  bool loaded = false;       // what it measured on last
};

// The worker's side of a stream, as the coordinator sees it. Send never blocks; Close ends the stream with a
// status.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual void Send(v1::ServerMessage message) = 0;
  virtual void Close(absl::Status status) = 0;
};

class Coordinator {
 public:
  static std::unique_ptr<Coordinator> Create(const CoordinatorOptions& options, store::Store* store,
                                             std::shared_ptr<prometheus::Registry> registry);
  virtual ~Coordinator() = default;

  // Takes up what an earlier process left: unfinished experiments, open attempts (each gets one lease time),
  // stages complete but not planned.
  virtual absl::Status Start() = 0;
  // Says RESTARTING to workers, lets the store commit, ends the thread.
  virtual void Stop() = 0;

  // ---- from the experiment service, after the store committed ----
  virtual void ExperimentSubmitted(int64_t experiment) = 0;
  // Cancels (idempotent); `done` after it is durable, with FAILED_PRECONDITION when it was final already in
  // another state.
  virtual void Cancel(int64_t experiment, const std::string& user,
                      absl::AnyInvocable<void(absl::Status)> done) = 0;
  virtual LiveExperiment Live(int64_t experiment) = 0;
  virtual std::vector<v1::ConnectedWorker> Workers() = 0;
  virtual std::vector<Holding> Holdings() = 0;
  // `changed` is called, from the coordinator's thread and often, whenever something of the experiment moved.
  // Returns a handle for Unsubscribe.
  virtual int64_t Subscribe(int64_t experiment, std::function<void()> changed) = 0;
  virtual void Unsubscribe(int64_t handle) = 0;

  // ---- from the worker service ----
  // A stream opened. Messages of one link arrive in order; `consumed` is called when the next may be read
  // (flow control).
  virtual int64_t LinkOpened(std::shared_ptr<WorkerLink> link) = 0;
  virtual void LinkMessage(int64_t link, v1::WorkerMessage message, std::function<void()> consumed) = 0;
  virtual void LinkClosed(int64_t link) = 0;
};

}  // namespace ropelab::api
