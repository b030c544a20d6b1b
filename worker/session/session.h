// A worker's standing connection: greets the server, takes leases, runs one task at a time, sends what it
// measured, and comes back after every loss until this process is told to end.
//
// Threads: Run()'s caller measures; one thread connects and reads; one writes; one beats (heartbeats,
// deadlines); one hashes weights; one looks at the models folders. They meet at a Desk.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "grpcpp/grpcpp.h"
#include "ropelab/v1/worker_service.grpc.pb.h"
#include "worker/measure/measurement.h"
#include "worker/session/backoff.h"
#include "worker/session/desk.h"
#include "worker/session/worker_metrics.h"

namespace ropelab::session {

// Runs one task. `loading` is told true and false around the loading of a model. Statuses as measure::Measure
// gives them.
using TaskFunction = std::function<absl::StatusOr<measure::Outcome>(
    const v1::Grant& grant, absl::FunctionRef<void(bool)> loading, measure::Recorder& recorder)>;
// Hashes a model's weights; `keep_going` false means that the process ends.
using HashFunction = std::function<v1::WeightsHash(const std::string& model,
                                                   absl::FunctionRef<bool(int64_t, int64_t)> keep_going)>;

struct SessionOptions {
  SessionMachine::Options machine;
  std::function<std::shared_ptr<grpc::Channel>()> channel;  // a fresh one at each call
  std::string server;                                       // what log lines call the other end
  std::string token;                                        // sent as a bearer token; empty: none
  std::function<v1::Hello()> hello;  // without the held leases; called before every greeting
  TaskFunction run_task;
  HashFunction hash;
  // A line that differs when another Hello would announce other models. When it has changed, and has kept
  // still for one period, the stream is opened anew, which is how a worker says what it has; held leases
  // stay. Null: nobody looks.
  std::function<std::string()> models_stamp;
  std::chrono::milliseconds rescan{3000};
  WorkerMetrics* metrics = nullptr;  // may be null
  std::function<std::vector<std::string>()> log_tail = [] { return std::vector<std::string>(); };
  std::function<int64_t()> memory_used = [] { return int64_t{0}; };
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds flush_time{
      2000};  // after the drain's grace, for what is still owed to the server
  uint64_t backoff_seed = 0;
  // Called when everything has ended except a task that does not look whether it shall stop. Null: Run()
  // waits for it.
  std::function<void()> abandon_task;
};

class Session {
 public:
  explicit Session(SessionOptions options);
  ~Session();

  // Until drained. Measures on the calling thread. `started` is called once: when the server has first
  // answered with Welcome, and so knows this worker's models, or when the first try to reach one has failed.
  // Call once.
  void Run(std::function<void()> started = nullptr);
  // From any thread, also before Run().
  void Drain();
  SessionState state();

 private:
  struct Link;
  void MeasureLoop();
  void RunTask(const SessionMachine::Start& start);
  void ConnectLoop();
  grpc::Status Serve(std::shared_ptr<grpc::Channel> channel, bool* welcomed);
  bool AwaitConnection(grpc::Channel& channel);
  void WriteLoop(Link* link);
  void BeatLoop();
  void HashLoop();
  void RescanLoop();
  // Whether the server could be told now of models other than it was told of.
  bool Announceable(const std::string& stamp);
  // Calls started_, once. From the connecting thread, without the lock.
  void SayStarted();
  void Act(const SessionMachine::Reaction& reaction) ROPELAB_REQUIRES(desk_.mutex);
  void CloseLink(const std::string& why) ROPELAB_REQUIRES(desk_.mutex);
  // Remembers when the running task lost its lease.
  void NoteLoss() ROPELAB_REQUIRES(desk_.mutex);
  bool Stopping();
  SessionMachine::Time Now() const { return Clock::Real().Monotonic(); }

  SessionOptions options_;
  Desk desk_;
  Link* link_ ROPELAB_GUARDED_BY(desk_.mutex) = nullptr;
  std::optional<SessionMachine::Time> lost_at_ ROPELAB_GUARDED_BY(desk_.mutex);
  std::deque<std::string> to_hash_ ROPELAB_GUARDED_BY(desk_.mutex);
  std::set<std::string> told_hashes_ ROPELAB_GUARDED_BY(desk_.mutex);  // models whose hash the server knows
  std::string announced_ ROPELAB_GUARDED_BY(desk_.mutex);              // models_stamp of the last Hello
  bool connect_loop_ended_ ROPELAB_GUARDED_BY(desk_.mutex) = false;
  std::function<void()> started_;
};

}  // namespace ropelab::session
