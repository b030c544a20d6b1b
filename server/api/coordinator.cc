// The coordinator's thread: one round takes what was posted, then sends acknowledgements and makes decisions
// once.
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/api/coordinator_impl.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
constexpr std::chrono::milliseconds kTick(100);
constexpr int64_t kBusyCount = 500'000'000;  // ns between looks at which experiments have running tasks
constexpr int64_t kStoreRetryNs = 500 * kMillisecond;
constexpr int64_t kNoProgressNs = 600'000 * kMillisecond;

schedule::Policy PolicyOf(const CoordinatorOptions& options) {
  schedule::Policy policy;
  policy.times.lease_ns = options.lease_ms * kMillisecond;
  policy.times.no_progress_ns = std::max(kNoProgressNs, policy.times.lease_ns);
  policy.max_attempts = options.max_attempts;
  return policy;
}

}  // namespace

std::unique_ptr<Coordinator> Coordinator::Create(const CoordinatorOptions& options, store::Store* store,
                                                 std::shared_ptr<prometheus::Registry> registry) {
  return std::make_unique<CoordinatorImpl>(options, store, std::move(registry));
}

CoordinatorImpl::CoordinatorImpl(const CoordinatorOptions& options, store::Store* store,
                                 std::shared_ptr<prometheus::Registry> registry)
    : options_(options),
      store_(store),
      clock_(Clock::Real()),
      metrics_(std::move(registry)),
      scheduler_(PolicyOf(options)),
      planners_(std::make_unique<WorkPool>(2, 1)) {}

CoordinatorImpl::~CoordinatorImpl() {
  Stop();
}

absl::Status CoordinatorImpl::Start() {
  std::vector<store::ExperimentRow> unfinished;
  std::vector<store::OpenAttemptRow> open;
  ROPELAB_RETURN_IF_ERROR(store_->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(catalogue_, store::KnownModels(db));
    ROPELAB_ASSIGN_OR_RETURN(open, store::OpenAttempts(db));
    ROPELAB_ASSIGN_OR_RETURN(unfinished, store::UnfinishedExperiments(db));
    return absl::OkStatus();
  }));
  const int64_t now = Now();
  for (const store::OpenAttemptRow& row : open) {
    scheduler_.TakeOverLease(row.token.task, row.token.attempt, row.token.session_epoch, row.worker,
                             row.incarnation, now);
  }
  if (!unfinished.empty() || !open.empty()) {
    spdlog::info("taking up {} unfinished experiments and {} open attempts of an earlier server",
                 unfinished.size(), open.size());
  }
  // The thread does not run yet, so this thread may touch what it owns.
  for (store::ExperimentRow& row : unfinished) {
    TakeUp(std::move(row));
  }
  thread_ = std::thread([this] { Loop(); });
  loop_thread_ = thread_.get_id();
  return absl::OkStatus();
}

void CoordinatorImpl::Stop() {
  if (stopping_.exchange(true)) {
    return;
  }
  if (thread_.joinable()) {
    RunAndWait([this] {
      v1::ServerMessage message;
      message.mutable_restarting();
      for (auto& [id, link] : links_) {
        link.stream->Send(message);
      }
    });
    // Whatever was queued before is durable after this, and its answer is posted.
    store_->WriteAndWait([](store::Connection&) { return absl::OkStatus(); }).IgnoreError();
    RunAndWait([this] {
      FlushAcknowledgements();
      for (auto& [id, link] : links_) {
        link.stream->Close(absl::UnavailableError("the server is restarting; connect again"));
      }
      ended_ = true;
    });
    thread_.join();
  }
  mailbox_->Close();
  planners_.reset();
}

void CoordinatorImpl::Loop() {
  auto next_tick = std::chrono::steady_clock::now();
  while (!ended_) {
    const auto until_tick = next_tick - std::chrono::steady_clock::now();
    auto closures =
        mailbox_->TakeAll(std::max<std::chrono::nanoseconds>(until_tick, std::chrono::nanoseconds(0)));
    for (Mailbox::Closure& closure : closures) {
      closure();
    }
    if (std::chrono::steady_clock::now() >= next_tick) {
      Tick();
      next_tick = std::chrono::steady_clock::now() + kTick;
    }
    FlushAcknowledgements();
    if (!stopping_) {
      Dispatch();
    }
  }
}

void CoordinatorImpl::CountBusyTime(int64_t now) {
  const int64_t passed = busy_counted_ns_ == 0 ? 0 : now - busy_counted_ns_;
  busy_counted_ns_ = now;
  for (auto& [id, entry] : experiments_) {
    if (entry.phase == LiveEntry::Phase::kMeasuring && scheduler_.RunningTasks(id) > 0) {
      entry.busy_ns += passed;
    }
  }
}

void CoordinatorImpl::Tick() {
  const int64_t now = Now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Mailbox::Closure closure = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    closure();
  }
  for (auto& [id, link] : links_) {
    if (link.is_stalled && link.in_flight == 0) {
      ResumeStalled(link);
    }
  }
  CloseSilentLinks(now);
  ExpireLeases(now);
  if (now - busy_counted_ns_ >= kBusyCount) {
    CountBusyTime(now);
  }
  if (now >= next_gauges_ns_) {
    next_gauges_ns_ = now + 1000 * kMillisecond;
    UpdateGauges();
  }
}

bool CoordinatorImpl::RunAndWait(Mailbox::Closure closure) {
  if (loop_thread_.load() == std::thread::id()) {
    return false;
  }
  if (std::this_thread::get_id() == loop_thread_.load()) {
    closure();
    return true;
  }
  struct Gate {
    Mutex mutex;
    CondVar wake;
    bool ran = false, dropped = false;
  };
  // Opens the gate when the closure is destroyed too: a mailbox that closes drops what it holds.
  struct Opener {
    std::shared_ptr<Gate> gate;
    bool ran = false;
    ~Opener() {
      MutexLock lock(&gate->mutex);
      gate->ran = ran;
      gate->dropped = true;
      gate->wake.NotifyAll();
    }
  };
  auto gate = std::make_shared<Gate>();
  auto opener = std::make_unique<Opener>();
  opener->gate = gate;
  if (!mailbox_->Post([closure = std::move(closure), opener = std::move(opener)]() mutable {
        closure();
        opener->ran = true;
        opener.reset();
      })) {
    return false;
  }
  MutexLock lock(&gate->mutex);
  while (!gate->dropped) {
    gate->wake.Wait(&gate->mutex);
  }
  return gate->ran;
}

void CoordinatorImpl::After(int64_t delay_ns, Mailbox::Closure closure) {
  timers_.emplace(Now() + delay_ns, std::move(closure));
}

void CoordinatorImpl::WriteDurably(Write write, std::function<void(absl::Status)> then) {
  auto shared = std::make_shared<Write>(std::move(write));
  store_->Write([shared](store::Connection& db) { return (*shared)(db); },
                [this, mailbox = mailbox_, shared, then = std::move(then)](absl::Status status) mutable {
                  mailbox->Post([this, shared, then = std::move(then), status = std::move(status)]() mutable {
                    if (!IsStorePaused(status) || stopping_) {
                      then(std::move(status));
                      return;
                    }
                    spdlog::debug("the store is paused, trying again: {}", std::string(status.message()));
                    After(kStoreRetryNs, [this, shared, then = std::move(then)]() mutable {
                      WriteDurably(*shared, std::move(then));
                    });
                  });
                });
}

}  // namespace ropelab::api
