// The local half of the machine: time, the running task and how leases end (declared in session_machine.h).
#include <cstdint>
#include <deque>
#include <utility>

#include "common/printable.h"
#include "spdlog/spdlog.h"
#include "worker/session/session_machine.h"

namespace ropelab::session {
namespace {

constexpr size_t kCauseBytes = 4000;

bool Same(const v1::LeaseToken& a, const v1::LeaseToken& b) {
  return a.task() == b.task() && a.attempt() == b.attempt() && a.session_epoch() == b.session_epoch();
}

}  // namespace

// ---- time ----

SessionMachine::Reaction SessionMachine::Tick(Time now) {
  Reaction reaction;
  if (link_ == Link::kGreeting && now - greeting_began_ > options_.greeting_deadline) {
    reaction.close = "no Welcome within the deadline";
  }
  if (now - last_heard_ > lease_) {
    if (!works_.empty()) DropAll("nothing heard from the server for a lease time");
    if (link_ == Link::kWelcomed) reaction.close = "nothing heard from the server for a lease time";
  }
  if (draining() && now - *drain_began_ > options_.drain_grace) {
    for (Work& work : works_) {
      if (!work.ended) HandBack(work, "draining");
    }
  }
  return reaction;
}

// ---- the local task ----

std::optional<SessionMachine::Start> SessionMachine::StartNext() {
  if (running_ || draining()) return std::nullopt;
  for (Work& work : works_) {
    if (work.started || work.ended) continue;
    work.started = true;
    work.accept_due = work.grant.ahead();
    running_ = work.id;
    loading_ = false;
    Start start{work.id, work.grant};
    *start.grant.mutable_token() = work.token;
    return start;
  }
  return std::nullopt;
}

void SessionMachine::SetLoading(int64_t work, bool loading) {
  if (running_ != work) return;
  loading_ = loading;
  if (Work* held = Find(work)) held->done = held->total = 0;
}

SessionMachine::Admission SessionMachine::Offer(BufferedEntry&& entry) {
  const Work* work = Find(entry.work);
  if (work == nullptr || work->ended) return Admission::kGone;
  if (entry.sequence <= work->acknowledged) return Admission::kTaken;
  if (!buffer_.HasRoom(entry)) return Admission::kFull;
  buffer_.Push(std::move(entry));
  return Admission::kTaken;
}

bool SessionMachine::Progress(int64_t id, double done, double total) {
  Work* work = Find(id);
  if (work == nullptr || work->ended) return false;
  work->done = done;
  work->total = total;
  return true;
}

void SessionMachine::Complete(int64_t id, v1::Completion completion) {
  Work* work = Find(id);
  if (work == nullptr || work->ended) return;
  v1::WorkerMessage message;
  *message.mutable_completion() = std::move(completion);
  End(*work, std::move(message));
}

void SessionMachine::Fail(int64_t id, const std::string& cause, bool permanent,
                          std::vector<std::string> log_tail) {
  Work* work = Find(id);
  if (work == nullptr || work->ended) return;
  v1::WorkerMessage message;
  v1::TaskFailure* failure = message.mutable_failure();
  failure->set_cause(Printable(cause, kCauseBytes));  // may quote a file
  failure->set_permanent(permanent);
  for (std::string& line : log_tail) failure->add_log_tail(std::move(line));
  End(*work, std::move(message));
}

void SessionMachine::Released(int64_t work) {
  if (running_ == work) running_.reset();
  loading_ = false;
}

void SessionMachine::End(Work& work, v1::WorkerMessage message) {
  work.ended = true;
  BufferedEntry entry;
  entry.work = work.id;
  entry.sequence = message.has_completion() ? message.completion().sequence() : INT64_MAX;
  entry.message = std::move(message);
  buffer_.Push(std::move(entry));
}

void SessionMachine::HandBack(Work& work, std::string_view why) {
  spdlog::info("{}: handed back: {}", Describe(work.token), why);
  v1::WorkerMessage message;
  message.mutable_hand_back();
  End(work, std::move(message));
}

void SessionMachine::HandBackToken(const v1::LeaseToken& token) {
  *control_.emplace_back().mutable_hand_back()->mutable_token() = token;
}

// ---- ending ----

void SessionMachine::Drain(Time now) {
  if (draining()) return;
  spdlog::info("draining: no new task; {}", running_ ? "the running one may finish" : "nothing runs");
  drain_began_ = now;
  drain_notice_due_ = link_ == Link::kWelcomed;
  for (Work& work : works_) {
    if (!work.started && !work.ended) HandBack(work, "draining");
  }
}

bool SessionMachine::Drained() const {
  return works_.empty() && control_.empty() && !drain_notice_due_ && !buffer_.Unsent();
}

SessionMachine::Work* SessionMachine::Find(int64_t id) {
  for (Work& work : works_) {
    if (work.id == id) return &work;
  }
  return nullptr;
}

const SessionMachine::Work* SessionMachine::Find(int64_t id) const {
  return const_cast<SessionMachine*>(this)->Find(id);
}

SessionMachine::Work* SessionMachine::FindToken(const v1::LeaseToken& token) {
  for (Work& work : works_) {
    if (Same(work.token, token)) return &work;
  }
  return nullptr;
}

void SessionMachine::Drop(const v1::LeaseToken& token, std::string_view why) {
  const Work* work = FindToken(token);
  if (work == nullptr) {
    spdlog::debug("{}: {}, and not held here", Describe(token), why);
    return;
  }
  spdlog::warn("{}: dropped, {}", Describe(token), why);
  Forget(work->id);
}

void SessionMachine::DropAll(std::string_view why) {
  for (const Work& work : std::deque<Work>(works_)) Drop(work.token, why);
}

void SessionMachine::Forget(int64_t id) {
  buffer_.Drop(id);
  std::erase_if(works_, [&](const Work& work) { return work.id == id; });
}

}  // namespace ropelab::session
