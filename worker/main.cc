// ropelab-worker: one process, one device. Turns flags into options and wires the owners.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "common/logging.h"
#include "common/service/metrics.h"
#include "common/version.h"
#include "spdlog/spdlog.h"
#include "worker/engine/blas_advice.h"
#include "worker/engine/numerics.h"
#include "worker/session/bus_error.h"
#include "worker/session/hello.h"
#include "worker/session/memory.h"
#include "worker/session/model_cache.h"
#include "worker/session/model_scan.h"
#include "worker/session/options.h"
#include "worker/session/session.h"
#include "worker/session/stop_signals.h"
#include "worker/session/task_function.h"
#include "worker/session/threads.h"
#include "worker/session/worker_id.h"
#include "worker/tools/tools.h"

namespace ropelab {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int Refuse(const absl::Status& status, int code) {
  spdlog::error("{}", std::string(status.message()));
  return code;
}

int Serve(const session::WorkerOptions& options) {
  const auto device = model::ParseDevice(options.device);
  if (!device.ok()) return Refuse(device.status(), kUsage);
  const auto credentials = session::MakeCredentials(options.server);
  if (!credentials.ok()) return Refuse(credentials.status(), kUsage);
  std::string token;
  if (!options.token_file.empty()) {
    absl::StatusOr<std::string> read = session::ReadToken(options.token_file);
    if (!read.ok()) return Refuse(read.status(), kUsage);
    token = *std::move(read);
  }
  const auto models = session::FindModels(options.models);
  if (!models.ok()) return Refuse(models.status(), kUsage);
  for (const session::FoundModel& found : *models)
    spdlog::info("model {} in {}", found.name, found.directory);
  if (models->empty()) spdlog::warn("{}", session::NoModelsAdvice(options.models));

  // Names are host-wide, so their locks are as well, wherever each worker keeps its cache.
  const auto id =
      session::WorkerId::Claim(options.id, options.device, std::filesystem::temp_directory_path().string());
  if (!id.ok()) return Refuse(id.status(), kFailed);

  const int threads = options.threads > 0 ? options.threads : session::AvailableCpus();
  session::UseThreads(threads);
  const auto numerics = engine::ComputeNumericsClass(options.device, threads);
  if (!numerics.ok()) return Refuse(numerics.status(), kFailed);
  if (const std::string advice = engine::BlasAdvice(); !advice.empty()) spdlog::warn("{}", advice);

  const int64_t memory = options.memory_limit > 0 ? options.memory_limit : session::UsableBytes() / 5 * 4;
  auto registry = std::make_shared<prometheus::Registry>();
  session::WorkerMetrics metrics(registry);
  session::ModelCache cache({options.models, options.cache_dir, *device, memory, &metrics});

  session::HelloFacts facts;
  facts.worker_id = id->name();
  facts.numerics = *numerics;
  facts.device = options.device;
  facts.memory_bytes = memory;
  facts.labels = options.labels;
  facts.roots = options.models;
  facts.cache_dir = options.cache_dir;

  session::SessionOptions session_options;
  session_options.server = options.server.target;
  session_options.channel = [&] { return session::MakeChannel(options.server.target, *credentials); };
  session_options.token = token;
  session_options.hello = [&] { return session::MakeHello(facts, cache.MostRecentWeightsHash()); };
  session_options.models_stamp = [&] { return session::ModelsStamp(options.models, options.cache_dir); };
  session::TokenizerCache tokenizers(options.models);
  session::CorpusCache::Options corpora_options;
  if (!options.cache_dir.empty()) {
    corpora_options.folder = (std::filesystem::path(options.cache_dir) / "corpora").string();
  }
  corpora_options.fetch.channel = session_options.channel;
  corpora_options.fetch.token = token;
  corpora_options.fetch.backoff_seed = std::random_device()();
  session::CorpusCache corpora(std::move(corpora_options));
  session_options.run_task = session::MakeTaskFunction({&cache, &tokenizers, &corpora});
  session_options.hash = [&](const std::string& model, absl::FunctionRef<bool(int64_t, int64_t)> keep_going) {
    return cache.Hash(model, keep_going);
  };
  session_options.metrics = &metrics;
  session_options.log_tail = TakeLogTail;
  session_options.memory_used = session::ResidentBytes;
  session_options.backoff_seed = std::random_device()();
  session_options.abandon_task = [] {
    spdlog::info("the task does not stop by itself; ending");
    std::_Exit(0);
  };
  // Shared with the signal thread, which outlives this function.
  const auto session = std::make_shared<session::Session>(std::move(session_options));
  session::OnStopSignals([session] { session->Drain(); });

  const auto endpoint = MetricsEndpoint::Start(options.metrics, registry, [] { return std::string(); });
  if (!endpoint.ok()) return Refuse(endpoint.status(), kFailed);
  std::printf("metrics on %s\n", (*endpoint)->address().c_str());
  std::fflush(stdout);
  spdlog::info("{} is worker {}, numerics class {}, {} threads", Build(), id->name(), numerics->hash,
               threads);
  session->Run([] {
    std::printf("ready\n");
    std::fflush(stdout);
  });
  spdlog::info("drained");
  return 0;
}

int Main(int argc, char** argv) {
  if (argc > 1 && tools::IsToolCommand(argv[1])) {
    session::UseThreads(session::ThreadsOfCommandLine(argc, argv, session::AvailableCpus()));
    InitializeLogging();
    return tools::RunTool(argc, argv);
  }
  const session::ParsedCommandLine parsed = session::ParseCommandLine(argc, argv);
  if (!parsed.run) return parsed.exit_code;
  session::BlockStopSignals();
  session::InstallBusErrorHandler();
  InitializeLogging();
  session::RouteGrpcLog();
  return Serve(parsed.options);
}

// Before the constructors of libtorch, which would otherwise run twice.
__attribute__((section(".preinit_array"), used)) void (*const reexecute)(int, char**,
                                                                         char**) = session::ReexecuteTuned;

}  // namespace
}  // namespace ropelab

// civetweb, under the metrics endpoint, asks for thread stacks of 100 KiB. The thread-local storage of
// libtorch's libraries is taken from a thread's stack and is larger than that, so those threads would not
// start. A stack costs only what it touches.
extern "C" int pthread_attr_setstacksize(pthread_attr_t* attributes, size_t size) noexcept {
  using Function = int (*)(pthread_attr_t*, size_t);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_attr_setstacksize"));
  constexpr size_t kLeast = size_t{1} << 20;
  return next(attributes, std::max(size, kLeast));
}

int main(int argc, char** argv) {
  return ropelab::Main(argc, argv);
}
