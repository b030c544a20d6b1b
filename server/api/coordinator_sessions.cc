// Streams and sessions: Hello and Welcome, heartbeats, draining, silence.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "ropelab/v1/reading.pb.h"
#include "server/api/coordinator_impl.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

constexpr int32_t kProtocol = 1;
constexpr int64_t kHelloDeadlineNs = 10'000'000'000;
constexpr size_t kIdBytes = 200;
constexpr int kMostHeld = 64;
constexpr size_t kLogTailLines = 50;
constexpr size_t kReadingBytes = 1 << 20;

absl::Status CheckHello(const v1::Hello& hello) {
  if (hello.worker_id().empty() || hello.worker_id().size() > kIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat("Hello with worker_id '",
                                                   hello.worker_id().substr(0, kIdBytes),
                                                   "': a name of 1 to ", kIdBytes, " bytes is needed"));
  }
  if (hello.incarnation().empty() || hello.incarnation().size() > kIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat("Hello of worker ", hello.worker_id(),
                                                   " without an incarnation of 1 to ", kIdBytes, " bytes"));
  }
  if (hello.protocol_first() > kProtocol || hello.protocol_last() < kProtocol) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", hello.worker_id(), " speaks protocol ", hello.protocol_first(), " to ",
        hello.protocol_last(), ", this server speaks ", kProtocol, ": update the older of the two"));
  }
  if (hello.numerics().hash().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Hello of worker ", hello.worker_id(), " without a numerics class"));
  }
  if (hello.held_size() > kMostHeld) {
    return absl::InvalidArgumentError(absl::StrCat("Hello of worker ", hello.worker_id(), " with ",
                                                   hello.held_size(), " held leases; at most ", kMostHeld,
                                                   " are understood"));
  }
  return absl::OkStatus();
}

// What can be checked without the coordinator's state, on the stream's own thread.
std::shared_ptr<WriteItem> Inspect(v1::WorkerMessage message) {
  auto item = std::make_shared<WriteItem>();
  item->bytes = static_cast<int64_t>(message.ByteSizeLong());
  if (message.has_reading()) {
    const v1::ReadingMessage& reading = message.reading();
    v1::Reading body;
    if (reading.body().size() > kReadingBytes) {
      item->malformed = absl::StrCat("has ", reading.body().size(), " bytes, more than ", kReadingBytes);
    } else if (Sha256Hex(reading.body()) != reading.sha256()) {
      item->malformed = "does not have the SHA-256 that came with it";
    } else if (!body.ParseFromString(reading.body())) {
      item->malformed = "does not parse as ropelab.v1.Reading";
    } else {
      item->artifacts.assign(body.artifacts().begin(), body.artifacts().end());
    }
  }
  item->message = std::move(message);
  return item;
}

}  // namespace

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

int64_t CoordinatorImpl::LinkOpened(std::shared_ptr<WorkerLink> link) {
  const int64_t id = next_link_++;
  const bool posted = mailbox_->Post([this, id, link] {
    if (stopping_) {
      link->Close(absl::UnavailableError("the server is restarting; connect again"));
      return;
    }
    Link& opened = links_[id];
    opened.id = id;
    opened.stream = link;
    opened.opened_ns = Now();
    opened.connected_us = WallNow();
  });
  if (!posted) {
    link->Close(absl::UnavailableError("the server is restarting; connect again"));
  }
  return id;
}

void CoordinatorImpl::LinkMessage(int64_t link, v1::WorkerMessage message, std::function<void()> consumed) {
  std::shared_ptr<WriteItem> item = Inspect(std::move(message));
  Post([this, link, item = std::move(item), consumed = std::move(consumed)]() mutable {
    OnMessage(link, std::move(item), std::move(consumed));
  });
}

void CoordinatorImpl::LinkClosed(int64_t link) {
  Post([this, link] { DropLink(link, absl::OkStatus()); });
}

Link* CoordinatorImpl::FindLink(int64_t id) {
  const auto found = links_.find(id);
  return found == links_.end() ? nullptr : &found->second;
}

Link* CoordinatorImpl::LinkOfEpoch(int64_t epoch) {
  const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& entry) {
    return epoch != 0 && entry.second.epoch == epoch;
  });
  return found == links_.end() ? nullptr : &found->second;
}

void CoordinatorImpl::OnMessage(int64_t id, std::shared_ptr<WriteItem> item, std::function<void()> consumed) {
  Link* link = FindLink(id);
  if (link == nullptr) {
    return;
  }
  item->arrived_ns = Now();
  const v1::WorkerMessage& message = item->message;
  if (message.has_hello()) {
    OnHello(*link, message.hello());
    consumed();
    return;
  }
  if (link->state == schedule::SessionState::kGreeting) {
    if (message.has_heartbeat()) {  // comes from a thread of its own and may cross with Welcome
      consumed();
      return;
    }
    DropLink(id, absl::FailedPreconditionError("a message came before Hello was answered"));
    return;
  }
  scheduler_.Heard(link->epoch, Now());
  switch (message.message_case()) {
    case v1::WorkerMessage::kHeartbeat:
      OnHeartbeat(*link, message.heartbeat());
      break;
    case v1::WorkerMessage::kReading:
    case v1::WorkerMessage::kArtifact:
    case v1::WorkerMessage::kCompletion:
      OnWriteItem(*link, std::move(item), std::move(consumed));
      return;
    case v1::WorkerMessage::kFailure:
      link->cancelled.erase(message.failure().token().task());
      FailLease(*link, message.failure().token(), message.failure().cause(), message.failure().permanent(),
                absl::StrJoin(message.failure().log_tail(), "\n"));
      break;
    case v1::WorkerMessage::kWeightsHash:
      OnWeightsHash(*link, message.weights_hash());
      break;
    case v1::WorkerMessage::kHandBack: {
      const v1::LeaseToken& token = message.hand_back().token();
      link->cancelled.erase(token.task());
      if (MatchLease(*link, token) != nullptr) {
        store::AttemptEnd end;
        end.outcome = "handed back";
        end.cause = absl::StrCat("worker ", link->hello.worker_id(), " handed it back");
        EndLease(token.task(), std::move(end));
      }
      break;
    }
    case v1::WorkerMessage::kAccepted: {
      const v1::LeaseToken& token = message.accepted().token();
      if (schedule::Lease* lease = MatchLease(*link, token); lease != nullptr) {
        scheduler_.leases().Renew(*lease, Now());
      } else {
        SendFenced(*link, token, "the lease that was accepted is not open");
      }
      break;
    }
    case v1::WorkerMessage::kDraining:
      if (schedule::IsLegalMove(link->state, schedule::SessionState::kDraining)) {
        spdlog::info("worker {} drains", link->hello.worker_id());
        link->state = schedule::SessionState::kDraining;
        scheduler_.DrainSession(link->epoch);
      }
      break;
    case v1::WorkerMessage::kHello:
    case v1::WorkerMessage::MESSAGE_NOT_SET:  // of a newer worker; it knows that an older server may not
      break;
  }
  consumed();
}

void CoordinatorImpl::OnHello(Link& link, const v1::Hello& hello) {
  absl::Status status =
      link.greeted ? absl::InvalidArgumentError("a second Hello on one stream") : CheckHello(hello);
  if (!status.ok()) {
    spdlog::warn("stream refused: {}", std::string(status.message()));
    DropLink(link.id, status);
    return;
  }
  link.greeted = true;
  link.hello = hello;
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
        std::any_of(hello.held().begin(), hello.held().end(), [&](const v1::HeldLease& held_lease) {
          return held_lease.token().task() == task && held_lease.token().attempt() == lease.attempt;
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
  for (const v1::ModelAnnouncement& model : link.hello.models()) {
    link.models[model.name()] = model;
    if (!model.weights_hash().empty() && model.problem().empty()) {
      facts.models[model.weights_hash()] = model.name();
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

void CoordinatorImpl::OnHeartbeat(Link& link, const v1::Heartbeat& heartbeat) {
  for (const std::string& line : heartbeat.log_tail()) {
    link.log_tail.push_back(line);
  }
  while (link.log_tail.size() > kLogTailLines) {
    link.log_tail.pop_front();
  }
  NoteIdle(link, heartbeat.has_token() ? heartbeat.token().task() : 0);
  if (heartbeat.has_token()) {
    if (schedule::Lease* lease = MatchLease(link, heartbeat.token()); lease != nullptr) {
      scheduler_.leases().Renew(*lease, Now());
      scheduler_.leases().ReportProgress(*lease, heartbeat.done(), heartbeat.total(), heartbeat.phase(),
                                         Now());
      for (const int64_t experiment : scheduler_.ExperimentsOf(lease->task)) {
        NotifyChanged(experiment);
      }
    } else if (!link.cancelled.contains(heartbeat.token().task()) && !IsOpen(heartbeat.token()) &&
               heartbeat.phase() != "waiting for acknowledgement") {
      SendFenced(link, heartbeat.token(), "the lease that the heartbeat names is not open");
    }
  }
  v1::ServerMessage reply;
  reply.mutable_heartbeat_reply();
  link.stream->Send(std::move(reply));
}

// Of an ending lease too: its worker hears when the end is committed.
bool CoordinatorImpl::IsOpen(const v1::LeaseToken& token) const {
  const schedule::Lease* lease = scheduler_.leases().Find(token.task());
  return lease != nullptr && lease->attempt == token.attempt();
}

void CoordinatorImpl::NoteIdle(Link& link, int64_t task_named) {
  for (auto entry = link.cancelled.begin(); entry != link.cancelled.end();) {
    if (entry->first == task_named) {
      ++entry;
      continue;
    }
    metrics_.cancel_to_idle_seconds.Observe(static_cast<double>(Now() - entry->second) * 1e-9);
    entry = link.cancelled.erase(entry);
  }
}

void CoordinatorImpl::SendFenced(Link& link, const v1::LeaseToken& token, const std::string& why) {
  metrics_.fenced.Increment();
  spdlog::warn("task {} attempt {} (epoch {}) of worker {} fenced: {}", token.task(), token.attempt(),
               token.session_epoch(), link.hello.worker_id(), why);
  v1::ServerMessage message;
  *message.mutable_fenced()->mutable_token() = token;
  message.mutable_fenced()->set_why(why);
  link.stream->Send(std::move(message));
}

void CoordinatorImpl::EndSession(Link& link) {
  if (link.epoch == 0) {
    return;
  }
  spdlog::info("session {} of worker {} ended", link.epoch, link.hello.worker_id());
  scheduler_.CloseSession(link.epoch, Now());
  std::set<std::string> uploads;
  std::swap(uploads, link.uploads);
  if (!uploads.empty()) {
    // In the writer's order: after the pieces that are still queued.
    store_->Write(
        [this, uploads](store::Connection&) {
          for (const std::string& upload : uploads) {
            store_->artifacts().Abandon(upload);
          }
          return absl::OkStatus();
        },
        [](absl::Status) {});
  }
  link.epoch = 0;
}

void CoordinatorImpl::DropLink(int64_t id, const absl::Status& status) {
  const auto found = links_.find(id);
  if (found == links_.end()) {
    return;
  }
  Link dropped = std::move(found->second);
  links_.erase(found);
  dropped.state = schedule::SessionState::kClosed;
  EndSession(dropped);
  dropped.stream->Close(status);
  SettleModels();  // a hash that it was asked for must be asked of another
}

void CoordinatorImpl::CloseSilentLinks(int64_t now_ns) {
  std::vector<int64_t> late, silent;
  for (const auto& [id, link] : links_) {
    if (!link.greeted && now_ns - link.opened_ns > kHelloDeadlineNs) {
      late.push_back(id);
    }
  }
  for (const int64_t id : late) {
    DropLink(id, absl::DeadlineExceededError("no Hello within 10 s of the stream's start"));
  }
  for (const int64_t epoch : scheduler_.SilentSessions(now_ns)) {
    Link* link = LinkOfEpoch(epoch);
    std::vector<int64_t> tasks;
    for (const auto& [task, lease] : scheduler_.leases().all()) {
      if (lease.epoch == epoch && lease.phase != schedule::LeasePhase::kEnding &&
          lease.phase != schedule::LeasePhase::kOpening) {
        tasks.push_back(task);
      }
    }
    const std::string worker = link == nullptr ? "" : link->hello.worker_id();
    for (const int64_t task : tasks) {
      LoseLease(task, absl::StrCat("worker ", worker, " was silent for ", options_.lease_ms, " ms"), "silent",
                /*may_count=*/true);
    }
    scheduler_.CloseSession(epoch, now_ns);
    if (link != nullptr) {
      spdlog::warn("worker {} was silent for {} ms: session {} is closed", worker, options_.lease_ms, epoch);
      DropLink(link->id, absl::DeadlineExceededError(absl::StrCat("nothing heard from worker ", worker,
                                                                  " for ", options_.lease_ms, " ms")));
    }
  }
}

}  // namespace ropelab::api
