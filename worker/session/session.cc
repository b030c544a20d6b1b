#include "worker/session/session.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "worker/session/bus_error.h"
#include "worker/session/recorder.h"

namespace ropelab::session {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestBeat{100};
constexpr milliseconds kConnectSlice{100};
// A connection that stood this long was a good one.
constexpr milliseconds kLasting{1000};

std::string KindOf(const v1::Measurement& measurement) {
  const auto* oneof = v1::Measurement::descriptor()->FindOneofByName("kind");
  const auto* field = measurement.GetReflection()->GetOneofFieldDescriptor(measurement, oneof);
  return field == nullptr ? "none" : field->name();
}

bool Permanent(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument ||
         status.code() == absl::StatusCode::kFailedPrecondition;
}

}  // namespace

// One stream, from its opening to its end. Lives on the connecting thread's stack.
struct Session::Link {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriterInterface<v1::WorkerMessage, v1::ServerMessage>> stream;
  bool ended = false;    // guarded by the desk's mutex
  bool writing = false;  // guarded by the desk's mutex
};

Session::Session(SessionOptions options) : options_(std::move(options)), desk_(options_.machine) {}
Session::~Session() = default;

SessionState Session::state() {
  MutexLock lock(&desk_.mutex);
  return desk_.machine.state();
}

void Session::Drain() {
  MutexLock lock(&desk_.mutex);
  desk_.machine.Drain(Now());
  desk_.changed.NotifyAll();
}

bool Session::Stopping() {
  MutexLock lock(&desk_.mutex);
  return desk_.stopping;
}

void Session::Run(std::function<void()> started) {
  started_ = std::move(started);
  std::thread connecting([this] { ConnectLoop(); });
  std::thread beating([this] { BeatLoop(); });
  std::thread hashing([this] { HashLoop(); });
  std::thread rescanning([this] { RescanLoop(); });
  MeasureLoop();
  connecting.join();
  beating.join();
  hashing.join();
  rescanning.join();
}

// ---- measuring ----

void Session::MeasureLoop() {
  while (true) {
    std::optional<SessionMachine::Start> start;
    {
      MutexLock lock(&desk_.mutex);
      while (!desk_.stopping && !(start = desk_.machine.StartNext())) desk_.changed.Wait(&desk_.mutex);
      if (!start) return;
      desk_.changed.NotifyAll();  // an acceptance may have to go out
    }
    RunTask(*start);
  }
}

void Session::RunTask(const SessionMachine::Start& start) {
  const std::string task = Describe(start.grant.token());
  const std::string kind = KindOf(start.grant.measurement());
  spdlog::info("{}: {} begins{}", task, kind,
               start.grant.resume_after() > 0
                   ? absl::StrCat(", going on after reading ", start.grant.resume_after())
                   : std::string());
  SetBusErrorContext(absl::StrCat(task, " (", kind, ") on model ", start.grant.model()));
  const SessionMachine::Time began = Now();
  SessionRecorder recorder(&desk_, start.work);
  const auto loading = [&](bool on) {
    MutexLock lock(&desk_.mutex);
    desk_.machine.SetLoading(start.work, on);
  };
  absl::StatusOr<measure::Outcome> outcome;
  try {
    outcome = options_.run_task(start.grant, loading, recorder);
  } catch (const std::exception& error) {
    outcome = absl::InternalError(absl::StrCat("exception: ", error.what()));
  }
  SetBusErrorContext("");
  const auto took = std::chrono::duration_cast<milliseconds>(Now() - began);

  std::string ended;
  {
    MutexLock lock(&desk_.mutex);
    if (!desk_.machine.Holds(start.work)) {
      ended = "abandoned";
    } else if (outcome.ok()) {
      v1::Completion completion = recorder.FinishCompletion();
      completion.set_fed_ids_digest(outcome->fed_ids_digest);
      completion.set_device_milliseconds(took.count());
      desk_.machine.Complete(start.work, std::move(completion));
      ended = "done";
    } else {
      const bool permanent = Permanent(outcome.status());
      desk_.machine.Fail(start.work, std::string(outcome.status().message()), permanent, options_.log_tail());
      ended = permanent ? "refused" : "failed";
    }
    desk_.machine.Released(start.work);
    if (lost_at_ && options_.metrics != nullptr) {
      options_.metrics->StoppedTask(std::chrono::duration<double>(Now() - *lost_at_).count());
    }
    lost_at_.reset();
    desk_.changed.NotifyAll();
  }
  if (ended == "refused" || ended == "failed") {
    spdlog::error("{}: {} {} after {} ms: {}", task, kind, ended, took.count(), outcome.status().ToString());
  } else {
    spdlog::info("{}: {} {} after {} ms", task, kind, ended, took.count());
  }
  if (options_.metrics != nullptr) {
    options_.metrics->TaskEnded(kind, ended, std::chrono::duration<double>(Now() - began).count());
  }
}

// ---- connecting and reading ----

void Session::ConnectLoop() {
  Backoff backoff(options_.backoff_seed);
  bool complained = false;  // once per outage
  while (!Stopping()) {
    // A fresh channel each time: an old one sits out gRPC's own back-off, which knows nothing of ours.
    std::shared_ptr<grpc::Channel> channel = options_.channel();
    channel->GetState(true);
    const SessionMachine::Time began = Now();
    bool welcomed = false;
    if (AwaitConnection(*channel)) {
      complained = false;
      const grpc::Status status = Serve(channel, &welcomed);
      if (status.error_code() == grpc::StatusCode::ABORTED) {
        spdlog::warn("{}: two processes run under one worker name, give each its own --id",
                     status.error_message());
        backoff.Lengthen();
      } else {
        spdlog::info("stream ended{}", status.ok() ? "" : ": " + status.error_message());
        if (welcomed && Now() - began > kLasting) backoff.Reset();
      }
    } else if (!complained && !Stopping()) {
      complained = true;
      spdlog::warn(
          "no server answers at {}; trying on until one does. If it should answer: is it running, and is "
          "--server its "
          "address?",
          options_.server);
    }
    SayStarted();
    MutexLock lock(&desk_.mutex);
    const SessionMachine::Time until = Now() + backoff.Next();
    while (!desk_.stopping && Now() < until) desk_.changed.WaitFor(&desk_.mutex, until - Now());
  }
  MutexLock lock(&desk_.mutex);
  connect_loop_ended_ = true;
  desk_.changed.NotifyAll();
}

void Session::SayStarted() {
  if (std::function<void()> started = std::exchange(started_, nullptr)) started();
}

bool Session::AwaitConnection(grpc::Channel& channel) {
  const SessionMachine::Time until = Now() + options_.connect_timeout;
  grpc_connectivity_state state = channel.GetState(true);
  while (state != GRPC_CHANNEL_READY) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) return false;
    if (Stopping() || Now() > until) return false;
    channel.WaitForStateChange(state, std::chrono::system_clock::now() + kConnectSlice);
    state = channel.GetState(true);
  }
  return true;
}

grpc::Status Session::Serve(std::shared_ptr<grpc::Channel> channel, bool* welcomed) {
  v1::WorkerMessage greeting;
  // The stamp first: what changes in between is announced again.
  std::string stamp = options_.models_stamp ? options_.models_stamp() : std::string();
  *greeting.mutable_hello() = options_.hello();
  Link link;
  if (!options_.token.empty()) link.context.AddMetadata("authorization", "Bearer " + options_.token);
  const std::unique_ptr<v1::WorkerService::Stub> stub = v1::WorkerService::NewStub(std::move(channel));
  link.stream = stub->Connect(&link.context);
  {
    MutexLock lock(&desk_.mutex);
    announced_ = std::move(stamp);
    for (const v1::ModelAnnouncement& model : greeting.hello().models()) {
      if (!model.weights_hash().empty()) told_hashes_.insert(model.name());
    }
    link_ = &link;
    desk_.machine.Greet(greeting.mutable_hello(), Now());
  }
  if (link.stream->Write(greeting)) {
    std::thread writing([&] { WriteLoop(&link); });
    v1::ServerMessage message;
    while (link.stream->Read(&message)) {
      {
        MutexLock lock(&desk_.mutex);
        const bool before = desk_.machine.connected();
        Act(desk_.machine.OnMessage(message, Now()));
        NoteLoss();
        if (!before && desk_.machine.connected()) {
          *welcomed = true;
          if (options_.metrics != nullptr) options_.metrics->Connected(true);
        }
        desk_.changed.NotifyAll();
      }
      if (*welcomed) SayStarted();
    }
    {
      MutexLock lock(&desk_.mutex);
      link.ended = true;
      desk_.changed.NotifyAll();
    }
    // A server ends a stream with its status, and then a write that waits for room fails.
    writing.join();
  }
  grpc::Status status = link.stream->Finish();
  MutexLock lock(&desk_.mutex);
  link_ = nullptr;
  desk_.machine.Disconnected();
  if (options_.metrics != nullptr) options_.metrics->Connected(false);
  return status;
}

void Session::Act(const SessionMachine::Reaction& reaction) {
  for (const std::string& model : reaction.hash) {
    if (std::find(to_hash_.begin(), to_hash_.end(), model) == to_hash_.end()) to_hash_.push_back(model);
  }
  if (!reaction.close.empty()) CloseLink(reaction.close);
}

void Session::NoteLoss() {
  if (!lost_at_ && desk_.machine.stopping_task()) lost_at_ = Now();
}

void Session::CloseLink(const std::string& why) {
  if (link_ == nullptr) return;
  spdlog::warn("closing the stream: {}", why);
  link_->context.TryCancel();
}

// ---- writing ----

void Session::WriteLoop(Link* link) {
  while (true) {
    std::optional<v1::WorkerMessage> message;
    {
      MutexLock lock(&desk_.mutex);
      link->writing = false;
      desk_.changed.NotifyAll();
      while (!link->ended && !(message = desk_.machine.NextToSend()) && !desk_.stopping) {
        desk_.changed.Wait(&desk_.mutex);
      }
      if (!message) {
        if (link->ended) return;
        break;
      }
      link->writing = true;
    }
    if (options_.metrics != nullptr) {
      if (message->has_reading()) options_.metrics->ReadingSent(static_cast<double>(message->ByteSizeLong()));
      if (message->has_artifact())
        options_.metrics->ArtifactSent(static_cast<double>(message->ByteSizeLong()));
    }
    // False: the stream is broken; the reader sees it as well and ends it.
    if (!link->stream->Write(*message)) return;
  }
  link->stream->WritesDone();
}

// ---- beating ----

void Session::BeatLoop() {
  SessionMachine::Time next_heartbeat{0};
  std::optional<SessionMachine::Time> draining_since;
  std::optional<SessionMachine::Time> stopping_since;
  while (true) {
    MutexLock lock(&desk_.mutex);
    const SessionMachine::Time now = Now();
    SessionMachine& machine = desk_.machine;
    Act(machine.Tick(now));
    NoteLoss();
    if (machine.connected() && now >= next_heartbeat) {
      const int64_t memory = options_.memory_used();
      machine.QueueHeartbeat(options_.log_tail(), memory);
      next_heartbeat = now + machine.heartbeat_period();
      if (options_.metrics != nullptr) options_.metrics->Memory(static_cast<double>(memory));
    }
    if (machine.draining() && !draining_since) draining_since = now;
    if (draining_since && !desk_.stopping) {
      const bool paid = machine.Drained() && (link_ == nullptr || !link_->writing);
      if (paid || now - *draining_since > options_.machine.drain_grace + options_.flush_time)
        desk_.stopping = true;
    }
    desk_.changed.NotifyAll();
    if (desk_.stopping) {
      if (!stopping_since) stopping_since = now;
      // The server has a moment to end the stream after our last message.
      if (now - *stopping_since > options_.flush_time / 2) CloseLink("this worker ends");
      if (connect_loop_ended_) {
        if (!machine.busy()) return;
        if (options_.abandon_task) options_.abandon_task();
      }
    }
    const SessionMachine::Time wake =
        now + std::min<SessionMachine::Time>(kLongestBeat, machine.heartbeat_period());
    // While draining every step may be the last one that is owed.
    do {
      desk_.changed.WaitFor(&desk_.mutex, std::max<SessionMachine::Time>(wake - Now(), milliseconds(1)));
    } while (!draining_since && !machine.draining() && Now() < wake);
  }
}

// ---- hashing ----

void Session::HashLoop() {
  while (true) {
    std::string model;
    {
      MutexLock lock(&desk_.mutex);
      while (!desk_.stopping && to_hash_.empty()) desk_.changed.Wait(&desk_.mutex);
      if (desk_.stopping) return;
      model = to_hash_.front();
    }
    v1::WeightsHash hash = options_.hash(model, [this](int64_t, int64_t) { return !Stopping(); });
    MutexLock lock(&desk_.mutex);
    to_hash_.pop_front();
    told_hashes_.insert(model);
    if (!hash.problem().empty()) spdlog::warn("hashing model {}: {}", model, hash.problem());
    desk_.machine.QueueWeightsHash(std::move(hash));
    desk_.changed.NotifyAll();
  }
}

// ---- looking for other models ----

void Session::RescanLoop() {
  if (!options_.models_stamp) return;
  std::string before;
  while (true) {
    std::set<std::string> told;
    {
      MutexLock lock(&desk_.mutex);
      const SessionMachine::Time until = Now() + options_.rescan;
      while (!desk_.stopping && Now() < until) desk_.changed.WaitFor(&desk_.mutex, until - Now());
      if (desk_.stopping) return;
      told = told_hashes_;
    }
    std::string now = options_.models_stamp();
    // A copy that goes on would be announced with a problem, and again and again.
    const bool still = now == before;
    before = now;
    if (!still || !Announceable(now)) continue;
    // A server takes a model that comes without a hash for the one it knows under that name, so where it
    // knows one the new one goes along. The next Hello finds it in the cache.
    for (const std::string& model : told)
      options_.hash(model, [this](int64_t, int64_t) { return !Stopping(); });
    MutexLock lock(&desk_.mutex);
    CloseLink("the models folders hold something else than this worker announced; it greets again");
  }
}

bool Session::Announceable(const std::string& stamp) {
  MutexLock lock(&desk_.mutex);
  return stamp != announced_ && link_ != nullptr && desk_.machine.connected() && !desk_.machine.draining();
}

}  // namespace ropelab::session
