// Readings, artifacts and completions: committed in the order in which they came, acknowledged after the
// commit, a batch by its highest sequence. A store that is paused (disk full) makes the items of a session
// wait, in order, until it heals.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/api/coordinator_impl.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

// Of one session, not yet committed: beyond either no further message is read.
constexpr int64_t kMostInFlight = 64;
constexpr int64_t kMostBytesInFlight = 8 << 20;

const v1::LeaseToken& TokenOf(const v1::WorkerMessage& message) {
  if (message.has_reading()) {
    return message.reading().token();
  }
  return message.has_artifact() ? message.artifact().token() : message.completion().token();
}

store::Token StoreToken(const v1::LeaseToken& token) {
  return {token.task(), token.attempt(), token.session_epoch()};
}

bool IsSha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// An item that comes back from the store goes before those that arrived while it was there.
void Stall(std::deque<std::shared_ptr<WriteItem>>& stalled, std::shared_ptr<WriteItem> item) {
  const auto after =
      std::upper_bound(stalled.begin(), stalled.end(), item,
                       [](const auto& one, const auto& other) { return one->number < other->number; });
  stalled.insert(after, std::move(item));
}

std::string UploadOf(const v1::ArtifactChunk& chunk) {
  return absl::StrCat(chunk.token().session_epoch(), "-", chunk.sha256());
}

absl::Status WriteReading(store::Store& store, store::Connection& db, const WriteItem& item,
                          WriteResult& result) {
  const v1::ReadingMessage& reading = item.message.reading();
  for (const v1::ArtifactName& artifact : item.artifacts) {
    if (!IsSha256(artifact.sha256()) || !store.artifacts().Has(artifact.sha256())) {
      result.missing_artifact = absl::StrCat(artifact.name(), " (sha256 ", artifact.sha256(), ")");
      return absl::OkStatus();
    }
  }
  ROPELAB_ASSIGN_OR_RETURN(
      result.committed,
      store::CommitReading(db, store.artifacts(), StoreToken(reading.token()), reading.sequence(),
                           reading.sha256(), reading.body(), Clock::Real().WallMicroseconds()));
  return absl::OkStatus();
}

absl::Status WriteArtifact(store::Store& store, const v1::ArtifactChunk& chunk) {
  const std::string upload = UploadOf(chunk);
  ROPELAB_RETURN_IF_ERROR(store.artifacts().Append(upload, chunk.offset(), chunk.data()));
  return chunk.last() ? store.artifacts().Finish(upload, chunk.sha256()).status() : absl::OkStatus();
}

absl::Status WriteCompletion(store::Connection& db, const v1::Completion& completion, WriteResult& result) {
  ROPELAB_ASSIGN_OR_RETURN(
      result.committed,
      store::CommitCompletion(db, StoreToken(completion.token()), completion.sequence(), completion.digest(),
                              completion.fed_ids_digest(), completion.device_milliseconds(),
                              Clock::Real().WallMicroseconds()));
  return absl::OkStatus();
}

}  // namespace

void CoordinatorImpl::OnWriteItem(Link& link, std::shared_ptr<WriteItem> item,
                                  std::function<void()> consumed) {
  const v1::LeaseToken token = TokenOf(item->message);
  if (token.session_epoch() != link.epoch) {
    SendFenced(
        link, token,
        absl::StrCat("the token is of session ", token.session_epoch(), ", this is session ", link.epoch));
    consumed();
    return;
  }
  if (schedule::Lease* lease = MatchLease(link, token); lease != nullptr) {
    scheduler_.leases().Renew(*lease, Now());
  } else if (item->message.has_artifact()) {
    SendFenced(link, token, "the lease of the artifact is not open");
    consumed();
    return;
  }
  if (item->message.has_artifact() && !IsSha256(item->message.artifact().sha256())) {
    FailLease(link, token,
              absl::StrCat("an artifact is named '", item->message.artifact().sha256().substr(0, 80),
                           "', which is no SHA-256 in hex"),
              false, "");
    consumed();
    return;
  }
  if (!item->malformed.empty()) {
    FailLease(link, token, absl::StrCat("reading ", item->message.reading().sequence(), " ", item->malformed),
              false, "");
    consumed();
    return;
  }
  item->number = ++link.items_seen;
  link.in_flight_bytes += item->bytes;
  if (link.is_stalled) {
    Stall(link.stalled, std::move(item));
  } else {
    SubmitItem(link, std::move(item));
  }
  link.held_back.push_back(std::move(consumed));
  ReleaseHeldBack(link);
}

void CoordinatorImpl::ReleaseHeldBack(Link& link) {
  while (!link.held_back.empty() &&
         link.in_flight + static_cast<int64_t>(link.stalled.size()) < kMostInFlight &&
         link.in_flight_bytes < kMostBytesInFlight) {
    auto consumed = std::move(link.held_back.front());
    link.held_back.pop_front();
    consumed();
  }
}

void CoordinatorImpl::SubmitItem(Link& link, std::shared_ptr<WriteItem> item) {
  ++link.in_flight;
  if (item->message.has_artifact()) {
    link.uploads.insert(UploadOf(item->message.artifact()));
  }
  auto result = std::make_shared<WriteResult>();
  store_->Write(
      [this, item, result](store::Connection& db) -> absl::Status {
        switch (item->message.message_case()) {
          case v1::WorkerMessage::kReading:
            return WriteReading(*store_, db, *item, *result);
          case v1::WorkerMessage::kArtifact:
            return WriteArtifact(*store_, item->message.artifact());
          default:
            return WriteCompletion(db, item->message.completion(), *result);
        }
      },
      [this, mailbox = mailbox_, id = link.id, item, result](absl::Status status) {
        mailbox->Post(
            [this, id, item, result, status = std::move(status)] { OnItemDone(id, item, *result, status); });
      });
}

void CoordinatorImpl::OnItemDone(int64_t id, const std::shared_ptr<WriteItem>& item,
                                 const WriteResult& result, const absl::Status& status) {
  Link* link =
      FindLink(id);  // gone: what was committed counts all the same, the worker hears of it when it is back
  const bool stall = IsStorePaused(status) || (link != nullptr && link->is_stalled && status.ok() &&
                                               result.committed == store::Committed::kOutOfOrder);
  if (link != nullptr) {
    --link->in_flight;
    if (stall) {
      if (!std::exchange(link->stall_told, true)) {
        spdlog::warn("worker {} waits for the store: {}", link->hello.worker_id(),
                     std::string(status.message()));
      }
      link->is_stalled = true;
      Stall(link->stalled, item);
      return;
    }
    link->stall_told = false;
    link->in_flight_bytes -= item->bytes;
    ReleaseHeldBack(*link);
  } else if (stall) {
    return;
  }
  if (!status.ok()) {
    const v1::LeaseToken token = TokenOf(item->message);
    spdlog::error("task {} attempt {}: a message cannot be stored: {}", token.task(), token.attempt(),
                  std::string(status.message()));
    if (link != nullptr) {
      FailLease(*link, token,
                absl::StrCat("the server cannot store what was measured: ", std::string(status.message())),
                false, "");
      SendFenced(*link, token, std::string(status.message()));
    }
    return;
  }
  switch (item->message.message_case()) {
    case v1::WorkerMessage::kReading:
      OnReadingDone(link, *item, result);
      break;
    case v1::WorkerMessage::kArtifact:
      metrics_.artifact_bytes.Increment(static_cast<double>(item->message.artifact().data().size()));
      if (link != nullptr && item->message.artifact().last()) {
        link->uploads.erase(UploadOf(item->message.artifact()));
      }
      break;
    default:
      OnCompletionDone(link, *item, result);
      break;
  }
}

void CoordinatorImpl::Acknowledge(Link* link, const v1::LeaseToken& token, int64_t sequence) {
  if (link != nullptr) {
    int64_t& highest = acknowledgements_[{link->id, token.task(), token.attempt(), token.session_epoch()}];
    highest = std::max(highest, sequence);
  }
}

void CoordinatorImpl::OnReadingDone(Link* link, const WriteItem& item, const WriteResult& result) {
  const v1::ReadingMessage& reading = item.message.reading();
  const v1::LeaseToken& token = reading.token();
  if (!result.missing_artifact.empty()) {
    if (link != nullptr) {
      FailLease(*link, token,
                absl::StrCat("reading ", reading.sequence(), " names artifact ", result.missing_artifact,
                             ", which was not uploaded"),
                false, "");
      SendFenced(*link, token, "a reading names an artifact that was not uploaded");
    }
    return;
  }
  metrics_.commit_seconds.Observe(static_cast<double>(Now() - item.arrived_ns) * 1e-9);
  switch (result.committed) {
    case store::Committed::kStored:
      metrics_.readings.Increment();
      metrics_.reading_bytes.Increment(static_cast<double>(reading.body().size()));
      if (schedule::Lease* lease = scheduler_.leases().Find(token.task());
          lease != nullptr && lease->attempt == token.attempt()) {
        ++lease->readings_committed;
      }
      break;
    case store::Committed::kDuplicate:
      metrics_.duplicates.Increment();
      break;
    case store::Committed::kDivergent:
      metrics_.divergent.Increment();
      spdlog::error(
          "task {} attempt {}: reading {} differs from the one that is stored; the first is kept, this one "
          "is "
          "in the divergences: determinism broke",
          token.task(), token.attempt(), reading.sequence());
      break;
    case store::Committed::kFenced:
    case store::Committed::kOutOfOrder:
      if (link != nullptr) {
        SendFenced(
            *link, token,
            result.committed == store::Committed::kFenced
                ? "the attempt is not the open one"
                : absl::StrCat("reading ", reading.sequence(), " is not one past the last one committed"));
        if (result.committed == store::Committed::kOutOfOrder && MatchLease(*link, token) != nullptr) {
          FailLease(*link, token, absl::StrCat("reading ", reading.sequence(), " came out of order"), false,
                    "");
        }
      }
      return;
  }
  Acknowledge(link, token, reading.sequence());
}

void CoordinatorImpl::OnCompletionDone(Link* link, const WriteItem& item, const WriteResult& result) {
  const v1::Completion& completion = item.message.completion();
  const v1::LeaseToken& token = completion.token();
  metrics_.commit_seconds.Observe(static_cast<double>(Now() - item.arrived_ns) * 1e-9);
  switch (result.committed) {
    case store::Committed::kStored: {
      spdlog::info("task {} attempt {} finished{}: {} readings, {} ms on the device", token.task(),
                   token.attempt(),
                   link == nullptr ? "" : absl::StrCat(" on worker ", link->hello.worker_id()),
                   completion.sequence() - 1, completion.device_milliseconds());
      metrics_.Task(task_kinds_.contains(token.task()) ? task_kinds_[token.task()] : "unknown", "finished");
      task_kinds_.erase(token.task());
      if (link != nullptr) {
        ++link->tasks_finished;
      }
      Acknowledge(link, token, completion.sequence());
      const std::vector<int64_t> experiments = scheduler_.TaskDone(token.task(), Now());
      for (const int64_t id : experiments) {
        if (LiveEntry* entry = FindEntry(id); entry != nullptr) {
          ++entry->finished_here;
        }
      }
      OnTasksMoved(experiments);
      return;
    }
    case store::Committed::kDuplicate:
      metrics_.duplicates.Increment();
      Acknowledge(link, token, completion.sequence());
      return;
    case store::Committed::kDivergent:
      metrics_.divergent.Increment();
      spdlog::error(
          "task {} attempt {}: its completion's count or digest differs from what is stored: determinism "
          "broke",
          token.task(), token.attempt());
      break;
    case store::Committed::kFenced:
    case store::Committed::kOutOfOrder:
      break;
  }
  if (link == nullptr) {
    return;
  }
  const std::string why = result.committed == store::Committed::kFenced
                              ? "the attempt is not the open one"
                              : "the completion does not agree with the readings that are stored";
  if (MatchLease(*link, token) != nullptr) {
    FailLease(*link, token, why, false, "");
  }
  SendFenced(*link, token, why);
}

void CoordinatorImpl::ResumeStalled(Link& link) {
  link.is_stalled = false;
  std::deque<std::shared_ptr<WriteItem>> items;
  items.swap(link.stalled);
  for (std::shared_ptr<WriteItem>& item : items) {
    SubmitItem(link, std::move(item));
  }
}

void CoordinatorImpl::FlushAcknowledgements() {
  for (const auto& [key, sequence] : acknowledgements_) {
    Link* link = FindLink(key.link);
    if (link == nullptr || link->epoch != key.epoch) {
      continue;
    }
    v1::ServerMessage message;
    v1::Acknowledgement* acknowledgement = message.mutable_acknowledgement();
    acknowledgement->mutable_token()->set_task(key.task);
    acknowledgement->mutable_token()->set_attempt(key.attempt);
    acknowledgement->mutable_token()->set_session_epoch(key.epoch);
    acknowledgement->set_sequence(sequence);
    link->stream->Send(std::move(message));
    metrics_.acknowledgements.Increment();
  }
  acknowledgements_.clear();
}

}  // namespace ropelab::api
