#include "worker/session/worker_metrics.h"

#include <utility>

namespace ropelab::session {
namespace {

prometheus::Counter* Counter(prometheus::Registry& registry, const std::string& name,
                             const std::string& help) {
  return &prometheus::BuildCounter().Name("ropelab_worker_" + name).Help(help).Register(registry).Add({});
}

prometheus::Gauge* Gauge(prometheus::Registry& registry, const std::string& name, const std::string& help) {
  return &prometheus::BuildGauge().Name("ropelab_worker_" + name).Help(help).Register(registry).Add({});
}

const prometheus::Histogram::BucketBoundaries kSeconds = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000};

}  // namespace

WorkerMetrics::WorkerMetrics(std::shared_ptr<prometheus::Registry> registry)
    : registry_(std::move(registry)) {
  prometheus::Registry& r = *registry_;
  tasks_ = &prometheus::BuildCounter()
                .Name("ropelab_worker_tasks_total")
                .Help("Tasks that left this worker, by measurement and outcome.")
                .Register(r);
  task_seconds_ = &prometheus::BuildHistogram()
                       .Name("ropelab_worker_task_seconds")
                       .Help("Seconds from the start of a task to its last reading, model load included.")
                       .Register(r);
  stop_seconds_ = &prometheus::BuildHistogram()
                       .Name("ropelab_worker_stop_seconds")
                       .Help("Seconds from the loss of a running task's lease to an idle device.")
                       .Register(r)
                       .Add({}, kSeconds);
  readings_ = Counter(r, "readings_sent_total", "Readings sent, replays included.");
  reading_bytes_ =
      Counter(r, "reading_sent_bytes_total", "Bytes of readings and artifacts sent, replays included.");
  connections_ = Counter(r, "sessions_total", "Sessions begun; reconnects are all but the first.");
  loads_ = &prometheus::BuildCounter()
                .Name("ropelab_worker_model_loads_total")
                .Help("Models that a task asked to be loaded, by outcome.")
                .Register(r);
  load_seconds_ = &prometheus::BuildHistogram()
                       .Name("ropelab_worker_model_load_seconds")
                       .Help("Seconds to load a model, the hashing of unknown weights included.")
                       .Register(r)
                       .Add({}, kSeconds);
  load_bytes_ = Counter(r, "model_load_bytes_total", "Bytes of the models loaded, as resident.");
  connected_ = Gauge(r, "connected", "1 while a session with the server stands.");
  resident_bytes_ = Gauge(r, "resident_model_bytes", "Bytes of the models that are held in memory.");
  memory_bytes_ = Gauge(r, "memory_bytes", "Resident memory of this process.");
}

void WorkerMetrics::TaskEnded(const std::string& kind, const std::string& outcome, double seconds) {
  tasks_->Add({{"kind", kind}, {"outcome", outcome}}).Increment();
  task_seconds_->Add({{"kind", kind}}, kSeconds).Observe(seconds);
}

void WorkerMetrics::ModelLoad(const std::string& outcome, double seconds, double bytes) {
  loads_->Add({{"outcome", outcome}}).Increment();
  if (outcome != "loaded") return;
  load_seconds_->Observe(seconds);
  load_bytes_->Increment(bytes);
}

void WorkerMetrics::ReadingSent(double bytes) {
  readings_->Increment();
  reading_bytes_->Increment(bytes);
}

void WorkerMetrics::Connected(bool connected) {
  if (connected) connections_->Increment();
  connected_->Set(connected ? 1 : 0);
}

}  // namespace ropelab::session
