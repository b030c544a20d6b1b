// Who holds which task, and until when. One lease per task at most. Times are nanoseconds of the server's
// monotonic clock, handed in by the caller; nothing here is durable (the attempt's row is).
//
//   Opening --> Ahead --> Running --> Ending
//      `----------------^            (also from Opening and Ahead)
//
// Opening: decided, its row is not committed yet. Ahead: fetched ahead of a running one; its clock stands
// while the session runs another lease. Running: accepted. Ending: its end is on the way to the disk.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ropelab::schedule {

enum class LeasePhase { kOpening, kAhead, kRunning, kEnding };

struct Lease {
  int64_t task = 0, attempt = 0;
  int64_t epoch = 0;      // of the session that holds it, or held it when its stream was cut
  bool attached = false;  // that session is open
  std::string worker, incarnation;
  LeasePhase phase = LeasePhase::kOpening;
  bool ahead = false;      // granted as fetched ahead
  int64_t experiment = 0;  // whose owner is charged; 0: not known (taken over from an earlier server)
  int64_t started_ns = 0;  // when it began to run
  int64_t deadline_ns = 0;
  int64_t progress_deadline_ns = 0;
  int64_t readings_committed = 0;  // in this attempt, as far as this server saw
  double done = 0, total = 0;
  std::string progress_phase;
};

struct LeaseTimes {
  int64_t lease_ns = 0;
  int64_t no_progress_ns = 0;  // alive, but done and phase unchanged for this long: lost
};

class LeaseTable {
 public:
  explicit LeaseTable(LeaseTimes times) : times_(times) {}

  // Replaces nothing: the task must hold no lease.
  Lease& Insert(Lease lease, int64_t now_ns);
  // The row is committed: Opening becomes Ahead or Running and the clock starts.
  void Confirm(Lease& lease, int64_t attempt, int64_t now_ns);
  // The lease runs (accepted, or spoken of by the worker) and has a full lease time again.
  void Renew(Lease& lease, int64_t now_ns);
  void ReportProgress(Lease& lease, double done, double total, const std::string& phase, int64_t now_ns);
  // A session took it over after a reconnect.
  void Adopt(Lease& lease, int64_t epoch, int64_t attempt, int64_t now_ns);
  // The stream was cut: the leases wait, with the time they have left (one fetched ahead gets a full lease
  // time).
  void Detach(int64_t epoch, int64_t now_ns);
  void Erase(int64_t task) { leases_.erase(task); }

  Lease* Find(int64_t task);
  const Lease* Find(int64_t task) const;
  // Null unless exactly this attempt under exactly this epoch is open and not ending.
  Lease* Match(int64_t task, int64_t attempt, int64_t epoch);
  const std::map<int64_t, Lease>& all() const { return leases_; }

  struct Expired {
    int64_t task = 0;
    std::string cause;
  };
  std::vector<Expired> Expire(int64_t now_ns);

 private:
  bool RunsAnother(const Lease& lease) const;

  LeaseTimes times_;
  std::map<int64_t, Lease> leases_;
};

}  // namespace ropelab::schedule
