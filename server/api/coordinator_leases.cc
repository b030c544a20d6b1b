// Grants and how leases end. A grant leaves only after its row is committed; a task is pending again only
// after its attempt's end is.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/service/canonical_hash.h"
#include "common/status_macros.h"
#include "ropelab/v1/measurement.pb.h"
#include "server/api/coordinator_impl.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

constexpr int64_t kReloadDelayNs = 1'000'000'000;

}  // namespace

struct CoordinatorImpl::Opened {
  store::GrantedLease lease;
  v1::Measurement measurement;
  std::vector<int64_t> now_running;  // experiments whose first grant this is
};

void CoordinatorImpl::Dispatch() {
  while (auto decision = scheduler_.Next(Now())) {
    if (decision->kind == schedule::Decision::Kind::kPin) {
      Pin(*decision);
    } else {
      OpenLease(*decision);
    }
  }
}

void CoordinatorImpl::Pin(const schedule::Decision& decision) {
  LiveEntry* entry = FindEntry(decision.experiment);
  if (entry == nullptr) {
    return;
  }
  auto tasks = std::make_shared<std::vector<store::TaskRow>>();
  const int64_t id = decision.experiment;
  const int64_t stage = entry->stage;
  const std::string numerics_class = decision.numerics_class;
  WriteDurably(
      [id, stage, numerics_class, tasks](store::Connection& db) -> absl::Status {
        ROPELAB_RETURN_IF_ERROR(store::PinExperiment(db, id, numerics_class).status());
        ROPELAB_ASSIGN_OR_RETURN(*tasks, store::TasksOf(db, id, stage));
        return absl::OkStatus();
      },
      [this, id, stage, numerics_class, tasks](absl::Status status) {
        LiveEntry* pinned = FindEntry(id);
        if (pinned == nullptr || pinned->ending) {
          return;
        }
        if (!status.ok()) {
          scheduler_.PinFailed(id);
          FailExperiment(id, absl::StrCat("cannot be pinned to numerics class ", numerics_class, ": ",
                                          std::string(status.message())));
          return;
        }
        spdlog::info("experiment e{} is pinned to numerics class {}", id, numerics_class);
        pinned->row.numerics_class = numerics_class;
        scheduler_.Pinned(id, numerics_class);
        OnStageLoaded(id, stage, *tasks);
      });
}

void CoordinatorImpl::OpenLease(const schedule::Decision& decision) {
  const Link* link = LinkOfEpoch(decision.epoch);
  auto opened = std::make_shared<Opened>();
  store::GrantFacts facts;
  facts.task = decision.task;
  facts.session_epoch = decision.epoch;
  facts.now_us = WallNow();
  if (link != nullptr) {
    facts.worker = link->hello.worker_id();
    facts.incarnation = link->hello.incarnation();
    facts.build = link->hello.build();
    facts.device = absl::StrCat(link->hello.device().kind(), " ", link->hello.device().name());
    facts.numerics_class = link->hello.numerics().hash();
  }
  for (const int64_t id : scheduler_.ExperimentsOf(decision.task)) {
    if (LiveEntry* entry = FindEntry(id); entry != nullptr && !entry->running && !entry->ending) {
      entry->running = true;
      opened->now_running.push_back(id);
    }
  }
  store_->Write(
      [this, opened, facts](store::Connection& db) -> absl::Status {
        ROPELAB_ASSIGN_OR_RETURN(opened->lease, store::OpenAttempt(db, facts));
        ROPELAB_ASSIGN_OR_RETURN(const std::string body,
                                 store::MeasurementOf(db, store_->artifacts(), facts.task));
        if (!opened->measurement.ParseFromString(body)) {
          return absl::InternalError(
              absl::StrCat("the stored measurement of task ", facts.task, " does not parse"));
        }
        for (const int64_t id : opened->now_running) {
          ROPELAB_RETURN_IF_ERROR(store::SetExperimentState(db, id, "running", "", facts.now_us).status());
        }
        return absl::OkStatus();
      },
      [this, mailbox = mailbox_, decision, opened](absl::Status status) {
        mailbox->Post([this, decision, opened, status = std::move(status)] {
          OnLeaseOpened(decision, opened, status);
        });
      });
}

void CoordinatorImpl::OnLeaseOpened(const schedule::Decision& decision, const std::shared_ptr<Opened>& opened,
                                    const absl::Status& status) {
  const int64_t task = decision.task;
  const std::vector<int64_t> experiments = scheduler_.ExperimentsOf(task);
  for (const int64_t id : opened->now_running) {
    if (LiveEntry* entry = FindEntry(id); entry != nullptr) {
      entry->running = status.ok();
      if (status.ok()) {
        entry->row.state = "running";
        NotifyChanged(id);
      }
    }
  }
  if (!status.ok()) {
    spdlog::error("task {} cannot be granted: {}", task, std::string(status.message()));
    scheduler_.Delay(task, kReloadDelayNs, std::string(status.message()), Now());
    if (absl::IsFailedPrecondition(status)) {
      for (const int64_t id : experiments) {  // the rows know better
        LoadStage(id);
      }
    } else if (!IsStorePaused(status)) {
      for (const int64_t id : experiments) {
        FailExperiment(id,
                       absl::StrCat("task ", task, " cannot be granted: ", std::string(status.message())));
      }
    }
    return;
  }
  schedule::Lease* lease = scheduler_.leases().Find(task);
  if (lease == nullptr || lease->phase != schedule::LeasePhase::kOpening) {
    spdlog::error("task {}: its lease vanished while it was opened", task);
    return;
  }
  scheduler_.leases().Confirm(*lease, opened->lease.token.attempt, Now());
  task_kinds_[task] = KindOf(opened->measurement);
  Link* link = LinkOfEpoch(decision.epoch);
  if (link == nullptr || link->state != schedule::SessionState::kActive || experiments.empty()) {
    store::AttemptEnd end;
    end.outcome = experiments.empty() ? "cancelled" : "handed back";
    end.cause =
        experiments.empty() ? "cancelled before the grant left" : "the session ended before the grant left";
    EndLease(task, std::move(end));
    return;
  }
  v1::ServerMessage message;
  v1::Grant* grant = message.mutable_grant();
  grant->mutable_token()->set_task(task);
  grant->mutable_token()->set_attempt(opened->lease.token.attempt);
  grant->mutable_token()->set_session_epoch(opened->lease.token.session_epoch);
  *grant->mutable_measurement() = std::move(opened->measurement);
  grant->set_key(CanonicalHash(grant->measurement()));
  grant->set_resume_after(opened->lease.resume_after);
  grant->set_ahead(decision.ahead);
  grant->set_model(decision.model);
  if (!grant->measurement().model().weights_hash().empty()) {
    link->loaded_model = decision.model;
  }
  spdlog::info("task {} attempt {} ({}) granted to worker {}{}, going on after reading {}", task,
               opened->lease.token.attempt, task_kinds_[task], link->hello.worker_id(),
               decision.ahead ? " ahead" : "", opened->lease.resume_after);
  metrics_.grants.Increment();
  link->stream->Send(std::move(message));
}

schedule::Lease* CoordinatorImpl::MatchLease(const Link& link, const v1::LeaseToken& token) {
  if (token.session_epoch() != link.epoch) {
    return nullptr;
  }
  return scheduler_.leases().Match(token.task(), token.attempt(), token.session_epoch());
}

void CoordinatorImpl::EndLease(int64_t task, store::AttemptEnd end) {
  schedule::Lease* lease = scheduler_.leases().Find(task);
  if (lease == nullptr || lease->phase == schedule::LeasePhase::kEnding ||
      lease->phase == schedule::LeasePhase::kOpening) {
    return;
  }
  lease->phase = schedule::LeasePhase::kEnding;
  end.now_us = WallNow();
  const store::Token token{task, lease->attempt, lease->epoch};
  struct Ended {
    store::AttemptEnd as;
    bool open = false;
  };
  auto ended = std::make_shared<Ended>();
  WriteDurably(
      [token, end, ended](store::Connection& db) -> absl::Status {
        ended->as = end;
        if (end.charged && end.outcome == "lost") {
          // The rows know of readings that an earlier server committed for this attempt.
          ROPELAB_ASSIGN_OR_RETURN(const bool committed, store::AttemptCommittedAny(db, token));
          if (committed) {
            ended->as.charged = false;
            ended->as.next_state = "pending";
          }
        }
        ROPELAB_ASSIGN_OR_RETURN(ended->open, store::EndAttempt(db, token, ended->as));
        return absl::OkStatus();
      },
      [this, task, attempt = token.attempt, ended](absl::Status status) {
        OnLeaseEnded(task, attempt, ended->as, ended->open, status);
      });
}

void CoordinatorImpl::OnLeaseEnded(int64_t task, int64_t attempt, const store::AttemptEnd& end, bool ended,
                                   const absl::Status& status) {
  if (!status.ok()) {
    spdlog::error("task {} attempt {}: its end cannot be recorded: {}", task, attempt,
                  std::string(status.message()));
  }
  const schedule::Lease* lease = scheduler_.leases().Find(task);
  if (lease == nullptr || lease->attempt != attempt) {
    return;  // a completion that was committed before came first
  }
  const std::string worker = lease->worker;
  if (!ended || !status.ok()) {
    // The rows moved on under another token: what they say counts, so look again.
    const std::vector<int64_t> experiments = scheduler_.TaskPending(task, false, end.cause, Now());
    scheduler_.Delay(task, kReloadDelayNs, end.cause, Now());
    for (const int64_t id : experiments) {
      LoadStage(id);
    }
    return;
  }
  metrics_.Task(task_kinds_.contains(task) ? task_kinds_[task] : "unknown", end.outcome);
  task_kinds_.erase(task);
  spdlog::info("task {} attempt {} of worker {} ended: {}{} ({})", task, attempt, worker, end.outcome,
               end.charged ? ", charged" : "", end.cause);
  if (end.next_state == "pending") {
    OnTasksMoved(scheduler_.TaskPending(task, end.charged, end.cause, Now()));
    return;
  }
  std::string cause = absl::StrCat("task ", task, " ", end.next_state, " on worker ", worker, " at attempt ",
                                   attempt, ": ", end.cause);
  if (end.next_state == "poisoned" && !end.log_tail.empty()) {
    absl::StrAppend(&cause, "\nlast log lines of the worker:\n", end.log_tail);
  }
  for (const int64_t id : scheduler_.TaskDone(task, Now())) {
    FailExperiment(id, cause);
  }
}

void CoordinatorImpl::LoseLease(int64_t task, const std::string& cause, const std::string& reason_label,
                                bool may_count) {
  const schedule::Lease* lease = scheduler_.leases().Find(task);
  if (lease == nullptr) {
    return;
  }
  store::AttemptEnd end;
  end.outcome = "lost";
  end.cause = cause;
  end.charged = may_count && schedule::Scheduler::LossCounts(*lease);
  if (end.charged && scheduler_.ChargedAttempts(task) + 1 >= options_.max_attempts) {
    end.next_state = "poisoned";
  }
  if (const Link* link = LinkOfEpoch(lease->epoch); link != nullptr) {
    end.log_tail = absl::StrJoin(link->log_tail, "\n");
  }
  metrics_.AttemptLost(reason_label);
  spdlog::warn("task {} attempt {} lost: {}", task, lease->attempt, cause);
  EndLease(task, std::move(end));
}

void CoordinatorImpl::FailLease(Link& link, const v1::LeaseToken& token, const std::string& cause,
                                bool permanent, const std::string& log_tail) {
  if (MatchLease(link, token) == nullptr) {
    SendFenced(link, token, "the lease of the task that failed is not open");
    return;
  }
  spdlog::warn("task {} attempt {} failed on worker {}{}: {}", token.task(), token.attempt(),
               link.hello.worker_id(), permanent ? ", permanently" : "", cause);
  store::AttemptEnd end;
  end.outcome = "failed";
  end.cause = cause;
  end.charged = true;
  end.log_tail = log_tail.empty() ? absl::StrJoin(link.log_tail, "\n") : log_tail;
  if (permanent) {
    end.next_state = "failed";
  } else if (scheduler_.ChargedAttempts(token.task()) + 1 >= options_.max_attempts) {
    end.next_state = "poisoned";
  }
  EndLease(token.task(), std::move(end));
}

void CoordinatorImpl::ExpireLeases(int64_t now_ns) {
  // What a worker sent and the store did not take yet (it is paused, or slow) is not its fault. An item that
  // is tried again counts as in flight.
  for (const auto& [id, link] : links_) {
    if (!link.is_stalled && link.in_flight == 0) {
      continue;
    }
    for (const auto& [task, lease] : scheduler_.leases().all()) {
      if (lease.epoch == link.epoch && lease.phase == schedule::LeasePhase::kRunning) {
        scheduler_.leases().Renew(*scheduler_.leases().Find(task), now_ns);
      }
    }
  }
  for (const schedule::LeaseTable::Expired& expired : scheduler_.leases().Expire(now_ns)) {
    const schedule::Lease lease = *scheduler_.leases().Find(expired.task);
    metrics_.lease_expiries.Increment();
    LoseLease(expired.task, expired.cause, "expired", /*may_count=*/true);
    if (Link* link = LinkOfEpoch(lease.epoch); link != nullptr) {
      v1::LeaseToken token;
      token.set_task(lease.task);
      token.set_attempt(lease.attempt);
      token.set_session_epoch(lease.epoch);
      SendFenced(*link, token, expired.cause);
    }
  }
}

}  // namespace ropelab::api
