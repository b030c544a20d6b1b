// The coordinator's inside. Everything below runs on its one thread unless it says otherwise; the parts stand
// in files of their own: coordinator.cc (thread, time), _sessions, _greeting, _models, _leases, _readings,
// _experiments, _view.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/mutex.h"
#include "server/api/catalogue.h"
#include "server/api/coordinator.h"
#include "server/api/coordinator_mailbox.h"
#include "server/api/coordinator_metrics.h"
#include "server/api/coordinator_planning.h"
#include "server/api/earlier_results.h"
#include "server/api/work_pool.h"
#include "server/schedule/scheduler.h"
#include "server/store/experiments.h"
#include "server/store/models.h"
#include "server/store/tasks.h"

namespace ropelab::api {

// A message that writes for a task, from its arrival until it is answered. Kept whole, since a paused store
// makes it wait.
struct WriteItem {
  v1::WorkerMessage message;
  std::vector<v1::ArtifactName> artifacts;  // that a reading names
  std::string malformed;                    // why a reading cannot be stored at all; empty: well formed
  int64_t bytes = 0;
  int64_t arrived_ns = 0;
  int64_t number = 0;  // in the session's order of arrival
};

struct WriteResult {
  store::Committed committed = store::Committed::kStored;
  std::string missing_artifact;
};

struct Link {
  int64_t id = 0;
  std::shared_ptr<WorkerLink> stream;
  schedule::SessionState state = schedule::SessionState::kGreeting;
  bool greeted = false;  // Hello came
  int64_t opened_ns = 0, connected_us = 0;
  int64_t epoch = 0;  // 0 until Welcome
  v1::Hello hello;
  std::map<std::string, v1::ModelAnnouncement> models;  // by name
  std::set<std::string> hashes_asked;
  std::map<std::string, std::string> hash_problems;  // model -> why
  std::string loaded_model;                          // by name: of the last grant that needed one
  std::deque<std::string> log_tail;
  int64_t tasks_finished = 0;
  std::set<std::string> uploads;  // artifacts under way
  // Flow control of what writes.
  int64_t items_seen = 0;  // that write
  int64_t in_flight = 0, in_flight_bytes = 0;
  std::deque<std::function<void()>> held_back;     // `consumed` callbacks that wait for commits
  std::deque<std::shared_ptr<WriteItem>> stalled;  // wait for the store to heal, in order of arrival
  bool is_stalled = false;
  bool stall_told = false;  // in the log, since an item was last taken
  std::map<int64_t, int64_t>
      cancelled;  // task -> monotonic ns of the cancel; until the worker is seen without it
};

struct LiveEntry {
  enum class Phase { kAwaiting, kHashing, kPlanning, kMeasuring, kReducing };
  store::ExperimentRow row;  // spec and typed_spec emptied
  std::shared_ptr<const v1::ExperimentSpec> spec;
  std::vector<ModelLine> models;
  std::vector<Source> sources;  // experiments that its heads come from; known once it awaits none
  Phase phase = Phase::kHashing;
  std::string reason;  // of phases other than kMeasuring
  int64_t stage = 0;
  bool ending = false;                                // its failure or cancel is on the way to the disk
  bool running = false;                               // state 'running' is, or is being, committed
  // For the rate: tasks finished, and the time in which some ran. What waits behind others has no speed.
  int64_t finished_here = 0, busy_ns = 0;
};

// As placement sees a model that can be loaded.
schedule::SessionModel SessionModelOf(const v1::ModelAnnouncement& model);

class CoordinatorImpl : public Coordinator {
 public:
  CoordinatorImpl(const CoordinatorOptions& options, store::Store* store,
                  std::shared_ptr<prometheus::Registry> registry);
  ~CoordinatorImpl() override;

  absl::Status Start() override;
  void Stop() override;
  void ExperimentSubmitted(int64_t experiment) override;
  void Cancel(int64_t experiment, const std::string& user,
              absl::AnyInvocable<void(absl::Status)> done) override;
  LiveExperiment Live(int64_t experiment) override;
  std::vector<v1::ConnectedWorker> Workers() override;
  std::vector<Holding> Holdings() override;
  int64_t Subscribe(int64_t experiment, std::function<void()> changed) override;
  void Unsubscribe(int64_t handle) override;
  int64_t LinkOpened(std::shared_ptr<WorkerLink> link) override;
  void LinkMessage(int64_t link, v1::WorkerMessage message, std::function<void()> consumed) override;
  void LinkClosed(int64_t link) override;

 private:
  using Write = std::function<absl::Status(store::Connection&)>;

  // ---- coordinator.cc ----
  void Loop();
  void Tick();
  void CountBusyTime(int64_t now);
  void Post(Mailbox::Closure closure) { mailbox_->Post(std::move(closure)); }
  bool RunAndWait(Mailbox::Closure closure);  // any thread; false once stopped
  void After(int64_t delay_ns, Mailbox::Closure closure);
  // Queues a write; `then` runs on the coordinator's thread after the commit. A paused store is tried again
  // until it heals.
  void WriteDurably(Write write, std::function<void(absl::Status)> then);
  int64_t Now() const { return clock_.Monotonic().count(); }
  int64_t WallNow() const { return clock_.WallMicroseconds(); }

  // ---- coordinator_sessions.cc ----
  Link* FindLink(int64_t id);
  Link* LinkOfEpoch(int64_t epoch);
  void OnMessage(int64_t link, std::shared_ptr<WriteItem> item, std::function<void()> consumed);
  // ---- coordinator_greeting.cc ----
  void OnHello(Link& link, const v1::Hello& said);
  void FreeOlderLeases(const v1::Hello& hello);
  struct Greeting;
  void OnGreeted(int64_t link, const std::shared_ptr<Greeting>& greeting, const absl::Status& status);
  void Welcome(Link& link, const Greeting& greeting);
  // ---- coordinator_sessions.cc: the rest ----
  void OnHeartbeat(Link& link, const v1::Heartbeat& heartbeat);
  bool IsOpen(const v1::LeaseToken& token) const;
  void NoteIdle(Link& link, int64_t task_named);
  void DropLink(int64_t id, const absl::Status& status);
  void EndSession(Link& link);
  void SendFenced(Link& link, const v1::LeaseToken& token, const std::string& why);
  void CloseSilentLinks(int64_t now_ns);

  // ---- coordinator_models.cc ----
  void LearnModels(const v1::Hello& hello);
  void LearnModel(const v1::ModelAnnouncement& model, const std::string& worker);
  void OnWeightsHash(Link& link, const v1::WeightsHash& hash);
  // Asks workers for the hashes that unfinished experiments need; moves those on whose models are known now.
  void SettleModels();
  void SettleModelsOf(LiveEntry& entry);
  void AskForHash(Link& link, const std::string& model);
  bool LacksHash(const Link& link, const std::string& name) const;
  // What was announced of the model that an experiment was resolved with; nullptr: nothing, or not its
  // weights hash yet.
  const v1::ModelAnnouncement* KnownModel(const ModelLine& wanted) const;
  std::string HeldOtherwise(const ModelLine& wanted) const;
  std::string LastSeen(const std::string& model) const;

  // ---- coordinator_leases.cc ----
  void Dispatch();
  struct Opened;
  void OpenLease(const schedule::Decision& decision);
  void OnLeaseOpened(const schedule::Decision& decision, const std::shared_ptr<Opened>& opened,
                     const absl::Status& status);
  void Pin(const schedule::Decision& decision);
  // Ends the open attempt of a lease; the task is pending again, failed or poisoned once that is durable.
  void EndLease(int64_t task, store::AttemptEnd end);
  void OnLeaseEnded(int64_t task, int64_t attempt, const store::AttemptEnd& end, bool ended,
                    const absl::Status& status);
  // `may_count`: whether it counts against the task where schedule::Scheduler::LossCounts says so.
  void LoseLease(int64_t task, const std::string& cause, const std::string& reason_label, bool may_count);
  void FailLease(Link& link, const v1::LeaseToken& token, const std::string& cause, bool permanent,
                 const std::string& log_tail);
  void ExpireLeases(int64_t now_ns);
  schedule::Lease* MatchLease(const Link& link, const v1::LeaseToken& token);

  // ---- coordinator_readings.cc ----
  void OnWriteItem(Link& link, std::shared_ptr<WriteItem> item, std::function<void()> consumed);
  void SubmitItem(Link& link, std::shared_ptr<WriteItem> item);
  void OnItemDone(int64_t link, const std::shared_ptr<WriteItem>& item, const WriteResult& result,
                  const absl::Status& status);
  void OnReadingDone(Link* link, const WriteItem& item, const WriteResult& result);
  void OnCompletionDone(Link* link, const WriteItem& item, const WriteResult& result);
  void ResumeStalled(Link& link);
  void ReleaseHeldBack(Link& link);
  void Acknowledge(Link* link, const v1::LeaseToken& token, int64_t sequence);
  void FlushAcknowledgements();

  // ---- coordinator_experiments.cc ----
  void TakeUp(store::ExperimentRow row);
  void Advance(LiveEntry& entry);
  void OnAdvanced(int64_t experiment, const absl::StatusOr<Advanced>& advanced);
  void LoadStage(int64_t experiment);
  // That the task's weights take in memory; 0: not known.
  int64_t WeightsBytes(const LiveEntry& entry, const store::TaskRow& task) const;
  void OnStageLoaded(int64_t experiment, int64_t stage, const std::vector<store::TaskRow>& tasks);
  void OnTasksMoved(const std::vector<int64_t>& experiments);  // one task less, or moved
  void CompleteStageIfDone(LiveEntry& entry);
  void FailExperiment(int64_t experiment, const std::string& cause);
  void RemoveExperiment(int64_t experiment);
  LiveEntry* FindEntry(int64_t experiment);
  void SetReason(LiveEntry& entry, std::string reason);
  void NotifyChanged(int64_t experiment);

  // ---- coordinator_sources.cc ----
  void AwaitSources(LiveEntry& entry);
  void SourceEnded();  // an experiment became final

  // ---- coordinator_view.cc ----
  LiveExperiment Describe(int64_t experiment);
  // `label` gets the metric's short name of it.
  std::string WaitingReason(const LiveEntry& entry, std::string* label);
  std::string LoadedModel(const Link& link) const;
  void UpdateGauges();

  const CoordinatorOptions options_;
  store::Store* const store_;
  const Clock& clock_;
  CoordinatorMetrics metrics_;
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> next_link_ = 1;
  std::atomic<std::thread::id> loop_thread_;  // none before Start
  std::thread thread_;
  bool ended_ = false;  // the loop may end

  schedule::Scheduler scheduler_;
  std::map<int64_t, Link> links_;
  std::map<int64_t, LiveEntry> experiments_;
  std::vector<store::ModelRow> catalogue_;
  std::map<int64_t, std::string> task_kinds_;  // of leased tasks
  struct AckKey {
    int64_t link, task, attempt, epoch;
    auto operator<=>(const AckKey&) const = default;
  };
  std::map<AckKey, int64_t> acknowledgements_;       // collected over one round, sent at its end
  std::multimap<int64_t, Mailbox::Closure> timers_;  // by monotonic ns
  int64_t next_gauges_ns_ = 0, busy_counted_ns_ = 0;

  Mutex subscriptions_mutex_;
  struct Subscription {
    int64_t experiment;
    std::function<void()> changed;
  };
  std::map<int64_t, Subscription> subscriptions_ ROPELAB_GUARDED_BY(subscriptions_mutex_);
  int64_t next_subscription_ ROPELAB_GUARDED_BY(subscriptions_mutex_) = 1;

  std::unique_ptr<WorkPool> planners_;  // last: joined first
};

}  // namespace ropelab::api
