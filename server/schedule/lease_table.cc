#include "server/schedule/lease_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ropelab::schedule {

Lease& LeaseTable::Insert(Lease lease, int64_t now_ns) {
  lease.deadline_ns = now_ns + times_.lease_ns;
  lease.progress_deadline_ns = now_ns + times_.no_progress_ns;
  const int64_t task = lease.task;
  return leases_.insert_or_assign(task, std::move(lease)).first->second;
}

void LeaseTable::Confirm(Lease& lease, int64_t attempt, int64_t now_ns) {
  lease.attempt = attempt;
  if (lease.ahead) {
    lease.phase = LeasePhase::kAhead;
    lease.deadline_ns = now_ns + times_.lease_ns;
  } else {
    Renew(lease, now_ns);
  }
}

void LeaseTable::Renew(Lease& lease, int64_t now_ns) {
  if (lease.phase == LeasePhase::kEnding) {
    return;
  }
  if (lease.phase != LeasePhase::kRunning) {
    lease.phase = LeasePhase::kRunning;
    lease.started_ns = now_ns;
    lease.progress_deadline_ns = now_ns + times_.no_progress_ns;
  }
  lease.deadline_ns = now_ns + times_.lease_ns;
}

void LeaseTable::ReportProgress(Lease& lease, double done, double total, const std::string& phase,
                                int64_t now_ns) {
  if (done != lease.done || phase != lease.progress_phase) {
    lease.progress_deadline_ns = now_ns + times_.no_progress_ns;
  }
  lease.done = done;
  lease.total = total;
  lease.progress_phase = phase;
}

void LeaseTable::Adopt(Lease& lease, int64_t epoch, int64_t attempt, int64_t now_ns) {
  lease.epoch = epoch;
  lease.attempt = attempt;
  lease.attached = true;
  lease.deadline_ns = now_ns + times_.lease_ns;
  lease.progress_deadline_ns = now_ns + times_.no_progress_ns;
}

void LeaseTable::Detach(int64_t epoch, int64_t now_ns) {
  for (auto& [task, lease] : leases_) {
    if (lease.epoch != epoch) {
      continue;
    }
    lease.attached = false;
    if (lease.phase == LeasePhase::kAhead) {
      lease.deadline_ns = now_ns + times_.lease_ns;
    }
  }
}

Lease* LeaseTable::Find(int64_t task) {
  const auto found = leases_.find(task);
  return found == leases_.end() ? nullptr : &found->second;
}

const Lease* LeaseTable::Find(int64_t task) const {
  const auto found = leases_.find(task);
  return found == leases_.end() ? nullptr : &found->second;
}

Lease* LeaseTable::Match(int64_t task, int64_t attempt, int64_t epoch) {
  Lease* lease = Find(task);
  if (lease == nullptr || lease->attempt != attempt || lease->epoch != epoch || !lease->attached ||
      lease->phase == LeasePhase::kEnding || lease->phase == LeasePhase::kOpening) {
    return nullptr;
  }
  return lease;
}

bool LeaseTable::RunsAnother(const Lease& lease) const {
  return std::any_of(leases_.begin(), leases_.end(), [&](const auto& entry) {
    const Lease& other = entry.second;
    return other.task != lease.task && other.epoch == lease.epoch && other.attached &&
           other.phase != LeasePhase::kAhead;
  });
}

std::vector<LeaseTable::Expired> LeaseTable::Expire(int64_t now_ns) {
  std::vector<Expired> expired;
  for (auto& [task, lease] : leases_) {
    // An opening or ending lease waits for the disk, not for the worker.
    if (lease.phase == LeasePhase::kOpening || lease.phase == LeasePhase::kEnding) {
      continue;
    }
    if (lease.phase == LeasePhase::kAhead && lease.attached && RunsAnother(lease)) {
      lease.deadline_ns = now_ns + times_.lease_ns;
      continue;
    }
    if (now_ns >= lease.deadline_ns) {
      expired.push_back({task, absl::StrCat("worker ", lease.worker, " did not renew its lease for ",
                                            times_.lease_ns / 1000000, " ms")});
    } else if (lease.phase == LeasePhase::kRunning && lease.attached &&
               now_ns >= lease.progress_deadline_ns) {
      expired.push_back({task, absl::StrCat("worker ", lease.worker, " is alive but made no progress for ",
                                            times_.no_progress_ns / 1000000, " ms (", lease.done, " of ",
                                            lease.total, " done, phase '", lease.progress_phase, "')")});
    }
  }
  return expired;
}

}  // namespace ropelab::schedule
