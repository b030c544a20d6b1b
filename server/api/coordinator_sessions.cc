// Streams and sessions: messages, heartbeats, draining, silence, the end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/sha256.h"
#include "ropelab/v1/reading.pb.h"
#include "server/api/coordinator_impl.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

constexpr int64_t kHelloDeadlineNs = 10'000'000'000;
// Of what a worker says in its own words.
constexpr size_t kLogTailLines = 50;
constexpr size_t kLogLineBytes = 1000;
constexpr size_t kLogTailBytes = kLogTailLines * kLogLineBytes;
constexpr size_t kCauseBytes = 4000;
constexpr size_t kReadingBytes = 1 << 20;

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
      FailLease(*link, message.failure().token(), Printable(message.failure().cause(), kCauseBytes),
                message.failure().permanent(),
                Printable(absl::StrJoin(message.failure().log_tail(), "\n"), kLogTailBytes));
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

void CoordinatorImpl::OnHeartbeat(Link& link, const v1::Heartbeat& heartbeat) {
  for (const std::string& line : heartbeat.log_tail()) {
    link.log_tail.push_back(Printable(line, kLogLineBytes));
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
