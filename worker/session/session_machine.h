// What a worker does on each message, on each tick and on each step of its task: rules 1 to 9 of the stream
// as a pure state machine. Time comes in as arguments, messages go out through NextToSend(); no thread, lock,
// socket or tensor in here.
//
//   Connecting -> Greeting   a stream is open and Hello is the next message
//   Greeting -> Idle         Welcome came (Loading or Measuring when a task went on meanwhile)
//   Idle -> Loading -> Measuring -> Idle    one task
//   any but Draining -> Connecting          the stream ended; a running task goes on until a lease time
//   without a word any -> Draining          a local or a remote wish to end; final
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ropelab/v1/worker_service.pb.h"
#include "worker/session/reading_buffer.h"

namespace ropelab::session {

inline constexpr int kProtocolFirst = 1;
inline constexpr int kProtocolLast = 1;

enum class SessionState { kConnecting, kGreeting, kIdle, kLoading, kMeasuring, kDraining };
std::string_view Name(SessionState state);

class SessionMachine {
 public:
  using Time = std::chrono::nanoseconds;  // of a monotonic clock

  struct Options {
    ReadingBuffer::Bounds buffer;
    Time greeting_deadline = std::chrono::seconds(10);
    // After a wish to drain: how long the running task may still finish by itself before it is handed back.
    Time drain_grace = std::chrono::seconds(2);
    // Of the session that has not heard a Welcome yet.
    Time lease = std::chrono::seconds(30);
  };
  explicit SessionMachine(const Options& options);

  // What the caller has to do after an event.
  struct Reaction {
    std::vector<std::string> hash;  // models whose weights hash was asked for
    std::string close;              // not empty: end this stream, for this reason, and connect again
  };

  // ---- the stream ----
  // Puts the held leases into `hello`; the caller sends it first.
  void Greet(v1::Hello* hello, Time now);
  Reaction OnMessage(const v1::ServerMessage& message, Time now);
  void Disconnected();
  // The next message for the stream, stamped with its token. None before Welcome.
  std::optional<v1::WorkerMessage> NextToSend();
  void QueueHeartbeat(std::vector<std::string> log_tail, int64_t memory_used_bytes);
  void QueueWeightsHash(v1::WeightsHash hash);

  // ---- time ----
  // Self-fencing, the deadline of the greeting and the end of the drain's grace. Call several times a second.
  Reaction Tick(Time now);
  Time heartbeat_period() const { return heartbeat_; }

  // ---- the local task ----
  struct Start {
    int64_t work = 0;
    v1::Grant grant;
  };
  // The next task to run; none while one runs or while draining.
  std::optional<Start> StartNext();
  void SetLoading(int64_t work, bool loading);
  enum class Admission { kTaken, kFull, kGone };
  // A reading (work, sequence, message, artifacts). One that the server has already is taken and not kept.
  // kFull: the entry is left as it was; offer it again when something was acknowledged.
  Admission Offer(BufferedEntry&& entry);
  // False: the lease is gone, stop.
  bool Progress(int64_t work, double done, double total);
  void Complete(int64_t work, v1::Completion completion);
  void Fail(int64_t work, const std::string& cause, bool permanent, std::vector<std::string> log_tail);
  // The measuring thread is free again. Always called once after StartNext, whatever became of the task.
  void Released(int64_t work);

  // ---- ending ----
  void Drain(Time now);
  bool draining() const { return drain_began_.has_value(); }
  // Nothing is left that this process owes the server.
  bool Drained() const;

  SessionState state() const;
  bool connected() const { return link_ == Link::kWelcomed; }
  bool busy() const { return running_.has_value(); }
  // The running measurement's lease is gone, and it has not stopped yet.
  bool stopping_task() const { return running_ && !Holds(*running_); }
  bool Holds(int64_t work) const { return Find(work) != nullptr && !Find(work)->ended; }
  size_t held() const { return works_.size(); }
  const ReadingBuffer& buffer() const { return buffer_; }

 private:
  enum class Link { kDown, kGreeting, kWelcomed };
  struct Work {
    int64_t id = 0;
    v1::Grant grant;
    v1::LeaseToken token;
    int64_t acknowledged = 0;  // highest sequence that the server has committed
    bool started = false;
    bool accept_due = false;  // fetched ahead and begun, and the server was not told yet
    bool ended = false;       // its last entry is in the buffer
    double done = 0;
    double total = 0;
  };

  Work* Find(int64_t id);
  const Work* Find(int64_t id) const;
  Work* FindToken(const v1::LeaseToken& token);
  Reaction OnWelcome(const v1::Welcome& welcome, Time now);
  void OnGrant(const v1::Grant& grant);
  void OnAcknowledgement(const v1::Acknowledgement& acknowledgement);
  // Ends a task with its last message, which goes out after its readings.
  void End(Work& work, v1::WorkerMessage message);
  void HandBack(Work& work, std::string_view why);
  void HandBackToken(const v1::LeaseToken& token);
  void Drop(const v1::LeaseToken& token, std::string_view why);
  void DropAll(std::string_view why);
  void Forget(int64_t id);

  Options options_;
  Link link_ = Link::kDown;
  Time heartbeat_;
  Time lease_;
  Time last_heard_{0};
  Time greeting_began_{0};
  std::optional<Time> drain_began_;
  bool drain_notice_due_ = false;

  int64_t next_work_ = 1;
  std::deque<Work> works_;          // in the order of their grants
  std::optional<int64_t> running_;  // may be of a dropped task, until its measurement has noticed
  bool loading_ = false;
  ReadingBuffer buffer_;
  std::optional<v1::Heartbeat> heartbeat_due_;
  std::deque<v1::WorkerMessage> control_;
};

std::string Describe(const v1::LeaseToken& token);  // "task 7 attempt 2"

}  // namespace ropelab::session
