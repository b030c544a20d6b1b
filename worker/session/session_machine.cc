#include "worker/session/session_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace ropelab::session {
namespace {

constexpr size_t kLogTailLines = 50;
// The running task and one fetched ahead; tasks that only wait for an acknowledgement do not count.
constexpr int kMostOpen = 2;

void Stamp(v1::WorkerMessage& message, const v1::LeaseToken& token) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kReading:
      *message.mutable_reading()->mutable_token() = token;
      break;
    case v1::WorkerMessage::kArtifact:
      *message.mutable_artifact()->mutable_token() = token;
      break;
    case v1::WorkerMessage::kCompletion:
      *message.mutable_completion()->mutable_token() = token;
      break;
    case v1::WorkerMessage::kFailure:
      *message.mutable_failure()->mutable_token() = token;
      break;
    case v1::WorkerMessage::kHandBack:
      *message.mutable_hand_back()->mutable_token() = token;
      break;
    default:
      break;
  }
}

}  // namespace

std::string Describe(const v1::LeaseToken& token) {
  return absl::StrCat("task ", token.task(), " attempt ", token.attempt());
}

std::string_view Name(SessionState state) {
  switch (state) {
    case SessionState::kConnecting:
      return "connecting";
    case SessionState::kGreeting:
      return "greeting";
    case SessionState::kIdle:
      return "idle";
    case SessionState::kLoading:
      return "loading model";
    case SessionState::kMeasuring:
      return "measuring";
    case SessionState::kDraining:
      return "draining";
  }
  return "unknown";
}

SessionMachine::SessionMachine(const Options& options)
    : options_(options), heartbeat_(options.lease / 6), lease_(options.lease), buffer_(options.buffer) {}

SessionState SessionMachine::state() const {
  if (draining()) return SessionState::kDraining;
  if (link_ == Link::kDown) return SessionState::kConnecting;
  if (link_ == Link::kGreeting) return SessionState::kGreeting;
  if (!running_) return SessionState::kIdle;
  return loading_ ? SessionState::kLoading : SessionState::kMeasuring;
}

// ---- the stream ----

void SessionMachine::Greet(v1::Hello* hello, Time now) {
  link_ = Link::kGreeting;
  greeting_began_ = now;
  hello->clear_held();
  for (const Work& work : works_) {
    v1::HeldLease* held = hello->add_held();
    *held->mutable_token() = work.token;
    held->set_last_sequence_sent(std::max(work.acknowledged, buffer_.LastSent(work.id)));
  }
}

void SessionMachine::Disconnected() {
  link_ = Link::kDown;
  heartbeat_due_.reset();
  control_.clear();
}

SessionMachine::Reaction SessionMachine::OnMessage(const v1::ServerMessage& message, Time now) {
  Reaction reaction;
  if (link_ == Link::kGreeting && message.message_case() == v1::ServerMessage::kWelcome) {
    return OnWelcome(message.welcome(), now);
  }
  // A server may say why it will not greet; anything else out of turn means that the two sides disagree on
  // where they are.
  if (link_ != Link::kWelcomed) {
    if (message.message_case() != v1::ServerMessage::kRestarting) {
      reaction.close = "the server spoke before its Welcome";
    }
    return reaction;
  }
  last_heard_ = now;
  switch (message.message_case()) {
    case v1::ServerMessage::kWelcome:
      reaction.close = "a second Welcome on one stream";
      break;
    case v1::ServerMessage::kGrant:
      OnGrant(message.grant());
      break;
    case v1::ServerMessage::kAcknowledgement:
      OnAcknowledgement(message.acknowledgement());
      break;
    case v1::ServerMessage::kFenced:
      Drop(message.fenced().token(), absl::StrCat("fenced: ", message.fenced().why()));
      break;
    case v1::ServerMessage::kCancel:
      Drop(message.cancel().token(), "cancelled by the server");
      break;
    case v1::ServerMessage::kHashRequest:
      reaction.hash.push_back(message.hash_request().model());
      break;
    case v1::ServerMessage::kRestarting:
      spdlog::info("server is restarting");
      break;
    case v1::ServerMessage::kDrain:
      Drain(now);
      break;
    case v1::ServerMessage::kHeartbeatReply:
    case v1::ServerMessage::MESSAGE_NOT_SET:  // a newer server's message that this worker may ignore
      break;
  }
  return reaction;
}

SessionMachine::Reaction SessionMachine::OnWelcome(const v1::Welcome& welcome, Time now) {
  Reaction reaction;
  if (welcome.protocol() < kProtocolFirst || welcome.protocol() > kProtocolLast) {
    reaction.close = absl::StrCat("server chose protocol ", welcome.protocol(), ", this worker speaks ",
                                  kProtocolFirst, " to ", kProtocolLast);
    return reaction;
  }
  if (welcome.lease_milliseconds() <= 0 || welcome.heartbeat_milliseconds() <= 0) {
    reaction.close =
        absl::StrCat("Welcome with a lease of ", welcome.lease_milliseconds(), " ms and a heartbeat of ",
                     welcome.heartbeat_milliseconds(), " ms; both must be positive");
    return reaction;
  }
  link_ = Link::kWelcomed;
  last_heard_ = now;
  lease_ = std::chrono::milliseconds(welcome.lease_milliseconds());
  heartbeat_ = std::chrono::milliseconds(welcome.heartbeat_milliseconds());
  drain_notice_due_ = draining();
  spdlog::info("connected to {}, session epoch {}, lease {} ms", welcome.server_build(),
               welcome.session_epoch(), welcome.lease_milliseconds());

  std::vector<int64_t> kept;
  for (const v1::LeaseVerdict& verdict : welcome.held()) {
    Work* work = FindToken(verdict.old_token());
    if (work == nullptr) {
      // Dropped between Hello and Welcome: the server must not wait for it.
      if (verdict.keep()) HandBackToken(verdict.new_token());
      continue;
    }
    if (!verdict.keep()) continue;
    kept.push_back(work->id);
    work->token = verdict.new_token();
    if (verdict.resume_after() < work->acknowledged) {
      // What was acknowledged is forgotten here and cannot be replayed.
      HandBack(*work, absl::StrCat("server asks to go on after reading ", verdict.resume_after(),
                                   " but acknowledged ", work->acknowledged));
      continue;
    }
    work->acknowledged = verdict.resume_after();
    work->accept_due = work->started && work->grant.ahead();
    buffer_.Acknowledge(work->id, verdict.resume_after());
    spdlog::info("{}: kept, going on after reading {}", Describe(work->token), verdict.resume_after());
  }
  for (const Work& work : std::deque<Work>(works_)) {
    if (std::find(kept.begin(), kept.end(), work.id) == kept.end()) Drop(work.token, "revoked by the server");
  }
  buffer_.Rewind();
  return reaction;
}

void SessionMachine::OnGrant(const v1::Grant& grant) {
  if (draining()) {
    HandBackToken(grant.token());
    return;
  }
  for (const Work& work : works_) {
    if (work.token.task() == grant.token().task()) {
      Drop(v1::LeaseToken(work.token), "granted anew");
      break;
    }
  }
  const auto open = std::count_if(works_.begin(), works_.end(), [](const Work& work) { return !work.ended; });
  if (open >= kMostOpen) {
    spdlog::warn("{}: handed back, {} tasks are held already", Describe(grant.token()), open);
    HandBackToken(grant.token());
    return;
  }
  Work work;
  work.id = next_work_++;
  work.grant = grant;
  work.token = grant.token();
  work.acknowledged = grant.resume_after();
  works_.push_back(std::move(work));
}

void SessionMachine::OnAcknowledgement(const v1::Acknowledgement& acknowledgement) {
  Work* work = FindToken(acknowledgement.token());
  if (work == nullptr) return;  // of a task that was dropped meanwhile
  work->acknowledged = std::max(work->acknowledged, acknowledgement.sequence());
  const int64_t id = work->id;
  const bool ended = work->ended;
  buffer_.Acknowledge(id, acknowledgement.sequence());
  // The completion is a task's last entry, so a task that ended and has nothing left is finished.
  if (ended && !buffer_.Holds(id)) Forget(id);
}

std::optional<v1::WorkerMessage> SessionMachine::NextToSend() {
  if (link_ != Link::kWelcomed) return std::nullopt;
  v1::WorkerMessage message;
  if (heartbeat_due_) {
    *message.mutable_heartbeat() = *std::move(heartbeat_due_);
    heartbeat_due_.reset();
    return message;
  }
  if (drain_notice_due_) {
    drain_notice_due_ = false;
    message.mutable_draining();
    return message;
  }
  if (!control_.empty()) {
    message = std::move(control_.front());
    control_.pop_front();
    return message;
  }
  // An acceptance goes before its task's readings and after those of the tasks before it.
  const std::optional<int64_t> next = buffer_.NextWork();
  for (Work& work : works_) {
    if (next && work.id > *next) break;
    if (work.accept_due) {
      work.accept_due = false;
      *message.mutable_accepted()->mutable_token() = work.token;
      return message;
    }
  }
  std::optional<ReadingBuffer::Piece> piece = buffer_.Next();
  if (!piece) return std::nullopt;
  Stamp(piece->message, Find(piece->work)->token);
  if (piece->message.has_failure() || piece->message.has_hand_back()) Forget(piece->work);
  return std::move(piece->message);
}

void SessionMachine::QueueHeartbeat(std::vector<std::string> log_tail, int64_t memory_used_bytes) {
  v1::Heartbeat heartbeat;
  // Lines of a heartbeat that was not sent yet stay in front.
  if (heartbeat_due_) heartbeat.mutable_log_tail()->Swap(heartbeat_due_->mutable_log_tail());
  for (std::string& line : log_tail) heartbeat.add_log_tail(std::move(line));
  if (const int excess = heartbeat.log_tail_size() - static_cast<int>(kLogTailLines); excess > 0) {
    heartbeat.mutable_log_tail()->DeleteSubrange(0, excess);
  }
  heartbeat.set_memory_used_bytes(memory_used_bytes);
  const Work* work = running_ ? Find(*running_) : nullptr;
  if (work == nullptr) {
    for (const Work& held : works_) {
      if (held.started) {
        work = &held;
        break;
      }
    }
  }
  if (work != nullptr) {
    *heartbeat.mutable_token() = work->token;
    heartbeat.set_done(work->done);
    heartbeat.set_total(work->total);
    heartbeat.set_phase(work->ended ? "waiting for acknowledgement"
                        : loading_  ? "loading model"
                                    : "measuring");
  }
  heartbeat_due_ = std::move(heartbeat);
}

void SessionMachine::QueueWeightsHash(v1::WeightsHash hash) {
  if (link_ != Link::kWelcomed) return;  // the next session asks again
  *control_.emplace_back().mutable_weights_hash() = std::move(hash);
}

}  // namespace ropelab::session
