// ropelab-server: turns flags into owners and waits for a signal.

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <variant>

#include "common/logging.h"
#include "common/service/metrics.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "server/api/corpora_dir.h"
#include "server/api/experiment_service.h"
#include "server/api/head_score_service.h"
#include "server/api/health_service.h"
#include "server/api/listen.h"
#include "server/api/server_options.h"
#include "server/api/worker_service.h"
#include "spdlog/spdlog.h"

namespace ropelab {
namespace {

constexpr std::chrono::seconds kShutdownGrace(2);

// In every thread, so before the first: the main thread takes the signals with sigwait.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// A second signal ends the process as it would any other.
void WaitForSignal(const sigset_t& signals) {
  int number = 0;
  sigwait(&signals, &number);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  spdlog::info("stopping on signal {}", number);
}

void WarnOfWhatIsOpen(const api::ServerOptions& options) {
  if (options.insecure) {
    spdlog::warn("--insecure: whoever reaches {} may submit and cancel under any name", options.listen);
  } else {
    spdlog::info("open to every user of this host; names of users are not verified");
  }
  if (options.keep_readings_days > 0) {
    spdlog::warn("--keep-readings {}: this version keeps readings for ever", options.keep_readings_days);
  }
}

absl::Status Serve(const api::ServerOptions& options, const sigset_t& signals) {
  ROPELAB_RETURN_IF_ERROR(api::CheckServerOptions(options));
  ROPELAB_ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> store,
                           store::Store::Open({.data_dir = options.data_dir}));
  auto registry = std::make_shared<prometheus::Registry>();
  const std::unique_ptr<api::Coordinator> coordinator =
      api::Coordinator::Create(api::CoordinatorOptionsOf(options), store.get(), registry);
  ROPELAB_RETURN_IF_ERROR(coordinator->Start());

  api::ServiceMetrics metrics(registry);
  const std::unique_ptr<api::Health> health = api::Health::Watch(store.get(), coordinator.get());
  auto requests = std::make_unique<api::WorkPool>(4, 1024);
  auto streams = std::make_unique<api::WorkPool>(8, 256);
  auto corpora = std::make_unique<api::WorkPool>(4, 256);
  api::ServiceContext context;
  context.store = store.get();
  context.coordinator = coordinator.get();
  context.requests = requests.get();
  context.streams = streams.get();
  context.corpora = corpora.get();
  context.metrics = &metrics;
  context.clock = &Clock::Real();
  const std::unique_ptr<api::ExperimentService> experiments = api::ExperimentService::Create(context);
  const std::unique_ptr<v1::WorkerService::CallbackService> workers = api::MakeWorkerService(context);
  const std::unique_ptr<v1::HeadScoreService::CallbackService> scores = api::MakeHeadScoreService(context);

  std::atomic<bool> stopping = false;
  absl::StatusOr<api::Listening> listening =
      api::Listen(options, {experiments.get(), workers.get(), scores.get()});
  absl::StatusOr<std::unique_ptr<MetricsEndpoint>> endpoint = nullptr;
  if (!listening.ok()) {
    endpoint = listening.status();
  } else {
    endpoint = MetricsEndpoint::Start(options.metrics, registry, [&health] { return health->Problem(); });
  }
  if (endpoint.ok()) {
    health->Tell(listening->server->GetHealthCheckService());
    WarnOfWhatIsOpen(options);
    spdlog::info("{} serves {} on {}", Build(), options.data_dir, listening->address);
    std::printf("listening on %s\nmetrics on %s\n", listening->address.c_str(),
                (*endpoint)->address().c_str());
    std::fflush(stdout);
    if (!options.corpora.empty()) {
      corpora->Continue(
          [&] { api::RegisterCorporaDir(context, options.corpora, [&] { return stopping.load(); }); });
    }
    WaitForSignal(signals);
  }

  stopping = true;
  // Workers hear RESTARTING while their streams still stand; then no new request comes; then what was asked
  // ends.
  health->Tell(nullptr);
  coordinator->Stop();
  experiments->StopWatches();
  if (listening.ok()) {
    listening->server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  }
  requests.reset();
  streams.reset();
  corpora.reset();
  store->Close();
  return endpoint.status();
}

}  // namespace
}  // namespace ropelab

int main(int argc, char** argv) {
  std::variant<ropelab::api::ServerOptions, int> parsed = ropelab::api::ParseServerOptions(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) {
    return *exit_code;
  }
  const sigset_t signals = ropelab::BlockStopSignals();
  ropelab::InitializeLogging();
  ropelab::api::RouteGrpcLog();
  const absl::Status status = ropelab::Serve(std::get<ropelab::api::ServerOptions>(parsed), signals);
  if (!status.ok()) {
    std::fprintf(stderr, "ropelab-server: %s\n", std::string(status.message()).c_str());
    return absl::IsInvalidArgument(status) ? 2 : 1;
  }
  return 0;
}
