// Who runs what next. Pure: facts and a monotonic clock value go in, decisions come out; it does no I/O and
// owns no thread.
//
// Order: strict priority class (interactive, normal, batch); within it the owner with least decayed
// device-seconds, those of running leases included; within an owner the order of submission; within an
// experiment plan order. A worker is eligible if it is active, announced a model with all that the task needs
// (session.h: weights and config, a tokenizer only where it reads text), and has the experiment's numerics
// class; one whose memory cannot
// hold the weights is passed over while another's can, and where none can it is offered the task, which it
// fails with the figures. An experiment without a class is pinned to that of the first worker that could run
// it. A worker holds at most one running lease
// and one fetched ahead; idle workers come first, and near the end of a stage nothing is fetched ahead, so
// that no worker hoards the tail.
//
// A task belongs to every experiment that wants it and is granted once. The caller makes each decision
// durable before it tells a worker, and reports back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/schedule/fair_share.h"
#include "server/schedule/lease_table.h"
#include "server/schedule/session.h"

namespace ropelab::schedule {

enum class Priority { kInteractive, kNormal, kBatch };
Priority PriorityOf(const std::string& name);  // "interactive", "batch"; anything else is normal

struct Policy {
  LeaseTimes times;
  int64_t max_attempts = 5;
  int64_t first_back_off_ns = 100'000'000;
  int64_t longest_back_off_ns = 30'000'000'000;
};

struct ExperimentFacts {
  int64_t id = 0;  // also the order of submission
  Priority priority = Priority::kNormal;
  std::string owner;
  std::string numerics_class;  // empty: not pinned
};

// One unfinished task of an experiment's present stage.
struct TaskFacts {
  int64_t task = 0, index = 0;
  // The weights hash is empty where no weights are needed, the tokenizer's where no text is read.
  std::string kind, model, weights_hash;
  int64_t charged_attempts = 0;
  std::string tokenizer_hash = "";
  int64_t weights_bytes = 0;  // that its model takes in memory; 0: not known
  std::string config_hash = "";
};

struct Decision {
  enum class Kind { kGrant, kPin };
  Kind kind = Kind::kGrant;
  int64_t experiment = 0;
  int64_t epoch = 0;           // of the session
  int64_t task = 0;            // kGrant
  bool ahead = false;          // kGrant
  std::string model;           // kGrant: as that worker calls it; empty: the task needs none
  std::string numerics_class;  // kPin
};

// Why nothing of an experiment runs. The kinds are the labels of a metric.
struct Waiting {
  enum class Kind { kNot, kNoWorker, kNoModel, kNoClass, kDraining, kBusy, kBackOff, kPinning };
  Kind kind = Kind::kNot;
  std::string sentence;         // empty for kNot
  std::string model;            // kNoModel: which
  bool held_otherwise = false;  // kNoModel: a worker has its name or weights, the rest is another
};
const char* NameOf(Waiting::Kind kind);

class Scheduler {
 public:
  explicit Scheduler(const Policy& policy) : policy_(policy), leases_(policy.times) {}

  // ---- sessions ----
  // Returns the epochs of older sessions of the same worker: they are closed now.
  std::vector<int64_t> OpenSession(SessionFacts facts, int64_t now_ns);
  // Unknown epochs and illegal moves do nothing.
  void DrainSession(int64_t epoch);
  void CloseSession(int64_t epoch, int64_t now_ns);
  void AddModel(int64_t epoch, SessionModel model);  // in place of the one of its name
  void CannotHash(int64_t epoch, const std::string& name);
  void Heard(int64_t epoch, int64_t now_ns);
  const Session* FindSession(int64_t epoch) const;
  const std::map<int64_t, Session>& sessions() const { return sessions_; }
  std::vector<int64_t> SilentSessions(int64_t now_ns) const;  // for a whole lease time

  // ---- experiments ----
  void AddExperiment(const ExperimentFacts& facts);
  // The pin is durable. Its tasks come again with SetTasks, since pinning may have exchanged some.
  void Pinned(int64_t experiment, const std::string& numerics_class);
  void PinFailed(int64_t experiment);
  // What the experiment waits for from now on: the unfinished tasks of one stage.
  void SetTasks(int64_t experiment, const std::vector<TaskFacts>& tasks);
  bool HasUnfinishedTasks(int64_t experiment) const;
  int64_t UnfinishedTasks(int64_t experiment) const;
  // Returns the tasks under lease that nothing wants any more.
  std::vector<int64_t> RemoveExperiment(int64_t experiment);
  std::vector<int64_t> ExperimentsOf(int64_t task) const;
  int64_t ChargedAttempts(int64_t task) const;

  // ---- leases ----
  LeaseTable& leases() { return leases_; }
  const LeaseTable& leases() const { return leases_; }
  // A lease that an earlier server life left open.
  void TakeOverLease(int64_t task, int64_t attempt, int64_t epoch, const std::string& worker,
                     const std::string& incarnation, int64_t now_ns);
  // Whether ending this lease now, without a result, counts against its task.
  static bool LossCounts(const Lease& lease) {
    return lease.phase == LeasePhase::kRunning && lease.readings_committed == 0;
  }
  // The lease is over. The task is done (finished, failed or poisoned) and leaves, or it is pending again,
  // charged or not. Returns the experiments that want it.
  std::vector<int64_t> TaskDone(int64_t task, int64_t now_ns);
  std::vector<int64_t> TaskPending(int64_t task, bool charged, const std::string& cause, int64_t now_ns);
  // Not before `now_ns + delay_ns`, not charged.
  void Delay(int64_t task, int64_t delay_ns, const std::string& cause, int64_t now_ns);

  // ---- decisions ----
  // The next one, taken as made: the task is Opening, or the experiment is being pinned. nullopt: nothing can
  // move now.
  std::optional<Decision> Next(int64_t now_ns);
  Waiting WhyWaiting(int64_t experiment, int64_t now_ns) const;
  int64_t RunningTasks(int64_t experiment) const;
  double RunningProgress(int64_t experiment) const;  // sum of done/total
  const FairShare& fair_share() const { return fair_share_; }

 private:
  using Place = std::pair<int64_t, int64_t>;  // index in the plan, task
  struct Experiment {
    ExperimentFacts facts;
    bool pinning = false;
    std::set<int64_t> unfinished;
    std::map<ModelNeeds, std::set<Place>> pending;
    int64_t pending_count = 0;
  };
  struct Task {
    TaskFacts facts;
    std::map<int64_t, int64_t> wanted_by;  // experiment -> index in its plan
    int64_t not_before_ns = 0;             // 0: not backing off
    std::string last_cause;
  };

  static ModelNeeds NeedsOf(const TaskFacts& task) {
    return {task.weights_hash, task.config_hash, task.tokenizer_hash};
  }
  void ReleaseBackedOff(int64_t now_ns);
  void Enqueue(const Task& task);
  void Dequeue(const Task& task);
  void Forget(int64_t experiment, int64_t task, std::vector<int64_t>* unwanted);
  void ChargeOwner(const Lease& lease, int64_t now_ns);
  std::vector<Experiment*> InOrder(int64_t now_ns);
  bool HasRoom(int64_t epoch, bool ahead) const;
  // Some session that may run the experiment holds the task's weights, or may turn out to, and has memory
  // for them.
  bool FitsSomewhere(const Experiment& experiment, const TaskFacts& task) const;
  // Why no session of the experiment's class has a model for the task.
  Waiting NoModel(const Experiment& experiment, const TaskFacts& task) const;
  std::optional<int64_t> FirstEligible(const Experiment& experiment, const Session& session) const;
  std::optional<Decision> DecideFor(const Session& session, bool ahead, const std::vector<Experiment*>& order,
                                    int64_t now_ns);

  Policy policy_;
  std::map<int64_t, Session> sessions_;
  std::map<int64_t, Experiment> experiments_;
  std::map<int64_t, Task> tasks_;
  std::set<std::pair<int64_t, int64_t>> backing_off_;  // not before, task
  LeaseTable leases_;
  FairShare fair_share_;
};

}  // namespace ropelab::schedule
