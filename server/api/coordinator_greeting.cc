// How a session begins: Hello, its transaction, Welcome with a verdict on every lease that the worker still
// holds.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "server/api/coordinator_impl.h"
#include "server/api/hello_rules.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
// What a Hello's transaction gives.
struct CoordinatorImpl::Greeting {
  int64_t epoch = 0;
  struct Verdict {
    v1::LeaseToken old_token;
    bool keep = false;
    store::GrantedLease lease;
  };
  std::vector<Verdict> verdicts;
};

void CoordinatorImpl::OnHello(Link& link, const v1::Hello& said) {
  absl::Status status =
      link.greeted ? absl::InvalidArgumentError("a second Hello on one stream") : CheckHello(said);
  if (!status.ok()) {
    spdlog::warn("stream refused: {}", std::string(status.message()));
    DropLink(link.id, status);
    return;
  }
  link.greeted = true;
  link.hello = said;
  CheckAnnouncements(link.hello);
  const v1::Hello& hello = link.hello;
  // From here on this is the worker's session: what an older stream of it still says would only be fenced.
  std::vector<int64_t> older;
  for (const auto& [id, other] : links_) {
    if (id != link.id && other.greeted && other.hello.worker_id() == hello.worker_id()) {
      older.push_back(id);
    }
  }
  for (const int64_t id : older) {
    DropLink(id,
             absl::AbortedError(absl::StrCat("a newer session of worker ", hello.worker_id(), " took over")));
  }
  FreeOlderLeases(hello);

  // The server's own token of each held lease, where it knows the lease as this very process's.
  auto greeting = std::make_shared<Greeting>();
  for (const v1::HeldLease& held : hello.held()) {
    const schedule::Lease* lease = scheduler_.leases().Find(held.token().task());
    Greeting::Verdict verdict;
    verdict.old_token = held.token();
    if (lease != nullptr && lease->attempt == held.token().attempt() && lease->worker == hello.worker_id() &&
        lease->incarnation == hello.incarnation() && lease->phase != schedule::LeasePhase::kEnding) {
      verdict.keep = true;
      verdict.lease.token = {lease->task, lease->attempt, lease->epoch};
    }
    greeting->verdicts.push_back(std::move(verdict));
  }
  auto write = [greeting, hello, now_us = WallNow()](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(greeting->epoch, store::NextSessionEpoch(db));
    ROPELAB_RETURN_IF_ERROR(store::RecordWorker(db, hello, greeting->epoch, now_us));
    for (const v1::ModelAnnouncement& model : hello.models()) {
      ROPELAB_RETURN_IF_ERROR(store::RecordModel(db, model, hello.worker_id(), now_us));
    }
    for (Greeting::Verdict& verdict : greeting->verdicts) {
      if (!verdict.keep) {
        continue;
      }
      const absl::StatusOr<store::GrantedLease> adopted =
          store::AdoptAttempt(db, verdict.lease.token, greeting->epoch);
      if (absl::IsFailedPrecondition(adopted.status()) || absl::IsNotFound(adopted.status())) {
        verdict.keep = false;
        continue;
      }
      ROPELAB_RETURN_IF_ERROR(adopted.status());
      verdict.lease = *adopted;
    }
    return absl::OkStatus();
  };
  store_->Write(std::move(write), [this, mailbox = mailbox_, id = link.id, greeting](absl::Status status) {
    mailbox->Post([this, id, greeting, status = std::move(status)] { OnGreeted(id, greeting, status); });
  });
}

void CoordinatorImpl::FreeOlderLeases(const v1::Hello& hello) {
  struct Gone {
    int64_t task;
    std::string cause;
    bool may_count;
  };
  std::vector<Gone> gone;
  for (const auto& [task, lease] : scheduler_.leases().all()) {
    if (lease.worker != hello.worker_id() || lease.phase == schedule::LeasePhase::kEnding ||
        lease.phase == schedule::LeasePhase::kOpening) {
      continue;  // an opening one is undone when its row is committed and its session is found gone
    }
    const bool held =
        std::any_of(hello.held().begin(), hello.held().end(),
                    [number = task, attempt = lease.attempt](const v1::HeldLease& held_lease) {
                      return held_lease.token().task() == number && held_lease.token().attempt() == attempt;
                    });
    if (lease.incarnation != hello.incarnation()) {
      gone.push_back({task, absl::StrCat("worker ", lease.worker, " started anew"), true});
    } else if (!held) {
      // The grant was cut off with the stream, or the worker fenced itself: neither is the task's doing.
      gone.push_back({task, absl::StrCat("worker ", lease.worker, " came back without it"), false});
    }
  }
  for (const Gone& lease : gone) {
    LoseLease(lease.task, lease.cause, "new_session", lease.may_count);
  }
}

void CoordinatorImpl::OnGreeted(int64_t id, const std::shared_ptr<Greeting>& greeting,
                                const absl::Status& status) {
  Link* link = FindLink(id);
  if (!status.ok()) {
    if (link != nullptr) {
      spdlog::warn("worker {} cannot be greeted: {}", link->hello.worker_id(), std::string(status.message()));
      DropLink(id, status);
    }
    return;
  }
  // The rows carry the new epoch whether the stream still lives or not.
  for (Greeting::Verdict& verdict : greeting->verdicts) {
    schedule::Lease* lease = scheduler_.leases().Find(verdict.old_token.task());
    if (lease == nullptr || lease->attempt != verdict.old_token.attempt() ||
        lease->phase == schedule::LeasePhase::kEnding) {
      // Ended meanwhile: its end was written under the old epoch and may have been fenced.
      if (verdict.keep) {
        verdict.keep = false;
        store::AttemptEnd end;
        end.outcome = "lost";
        end.cause = "its lease ended while the worker reconnected";
        end.now_us = WallNow();
        const store::Token token = verdict.lease.token;
        WriteDurably(
            [token, end](store::Connection& db) { return store::EndAttempt(db, token, end).status(); },
            [](absl::Status) {});
      }
      continue;
    }
    if (verdict.keep) {
      scheduler_.leases().Adopt(*lease, greeting->epoch, verdict.lease.token.attempt, Now());
      if (link == nullptr) {
        scheduler_.leases().Detach(greeting->epoch, Now());
      }
    }
  }
  if (link != nullptr) {
    Welcome(*link, *greeting);
  }
}

void CoordinatorImpl::Welcome(Link& link, const Greeting& greeting) {
  link.epoch = greeting.epoch;
  link.state = schedule::SessionState::kActive;
  schedule::SessionFacts facts;
  facts.epoch = greeting.epoch;
  facts.worker = link.hello.worker_id();
  facts.incarnation = link.hello.incarnation();
  facts.numerics_class = link.hello.numerics().hash();
  facts.memory_bytes = link.hello.device().memory_bytes();
  for (const v1::ModelAnnouncement& model : link.hello.models()) {
    link.models[model.name()] = model;
    if (model.problem().empty()) {
      facts.models.push_back(SessionModelOf(model));
    }
  }
  scheduler_.OpenSession(std::move(facts), Now());

  v1::ServerMessage message;
  v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_protocol(kProtocol);
  welcome->set_session_epoch(greeting.epoch);
  welcome->set_heartbeat_milliseconds(options_.heartbeat_ms);
  welcome->set_lease_milliseconds(options_.lease_ms);
  welcome->set_server_build(Build());
  int kept = 0;
  for (const Greeting::Verdict& verdict : greeting.verdicts) {
    v1::LeaseVerdict* answer = welcome->add_held();
    *answer->mutable_old_token() = verdict.old_token;
    answer->set_keep(verdict.keep);
    kept += verdict.keep;
    if (verdict.keep) {
      answer->mutable_new_token()->set_task(verdict.lease.token.task);
      answer->mutable_new_token()->set_attempt(verdict.lease.token.attempt);
      answer->mutable_new_token()->set_session_epoch(verdict.lease.token.session_epoch);
      answer->set_resume_after(verdict.lease.resume_after);
    }
  }
  link.stream->Send(std::move(message));
  spdlog::info("worker {} connected: session epoch {}, class {}, {} models, {} of {} held leases kept",
               link.hello.worker_id(), link.epoch, link.hello.numerics().hash(), link.hello.models_size(),
               kept, greeting.verdicts.size());
  LearnModels(link.hello);
  SettleModels();
}

}  // namespace ropelab::api
