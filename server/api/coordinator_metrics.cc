#include "server/api/coordinator_metrics.h"

namespace ropelab::api {
namespace {

prometheus::Counter& Count(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Histogram& Seconds(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(
      {}, prometheus::Histogram::BucketBoundaries{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100});
}

}  // namespace

CoordinatorMetrics::CoordinatorMetrics(std::shared_ptr<prometheus::Registry> registry)
    : grants(Count(*registry, "ropelab_grants_total", "Leases granted")),
      acknowledgements(
          Count(*registry, "ropelab_acknowledgements_total", "Acknowledgements sent to workers")),
      readings(Count(*registry, "ropelab_readings_total", "Readings committed")),
      reading_bytes(Count(*registry, "ropelab_reading_bytes_total", "Bytes of readings committed")),
      artifact_bytes(
          Count(*registry, "ropelab_artifact_bytes_total", "Bytes of artifacts received from workers")),
      duplicates(
          Count(*registry, "ropelab_duplicate_readings_total", "Readings sent again and already committed")),
      divergent(Count(*registry, "ropelab_divergent_readings_total",
                      "Readings or completions that contradict what is committed: determinism broke")),
      fenced(Count(*registry, "ropelab_fenced_total",
                   "Messages refused because their lease is not the open one")),
      lease_expiries(Count(*registry, "ropelab_lease_expiries_total", "Leases that ran out")),
      commit_seconds(Seconds(*registry, "ropelab_commit_seconds",
                             "From a reading's or completion's arrival to its commit")),
      cancel_to_idle_seconds(Seconds(*registry, "ropelab_cancel_to_idle_seconds",
                                     "From a cancel to the worker's first message without the task")),
      reduce_seconds(Seconds(*registry, "ropelab_reduce_seconds", "Time to reduce an experiment")),
      registry_(registry),
      tasks_(prometheus::BuildCounter()
                 .Name("ropelab_tasks_total")
                 .Help("Attempts that ended, by measurement kind and outcome")
                 .Register(*registry)),
      lost_(prometheus::BuildCounter()
                .Name("ropelab_attempts_lost_total")
                .Help("Attempts lost, by reason")
                .Register(*registry)),
      queue_(prometheus::BuildGauge()
                 .Name("ropelab_queue_tasks")
                 .Help("Unfinished tasks of planned stages, by priority and by why their experiment waits")
                 .Register(*registry)),
      workers_(prometheus::BuildGauge()
                   .Name("ropelab_workers")
                   .Help("Connected workers, by state")
                   .Register(*registry)) {}

void CoordinatorMetrics::Task(const std::string& kind, const std::string& outcome) {
  tasks_.Add({{"kind", kind}, {"outcome", outcome}}).Increment();
}

void CoordinatorMetrics::AttemptLost(const std::string& cause) {
  lost_.Add({{"reason", cause}}).Increment();
}

void CoordinatorMetrics::QueueDepth(const std::map<std::pair<std::string, std::string>, double>& depth) {
  for (const auto& [key, value] : depth) {
    if (!queue_gauges_.contains(key)) {
      queue_gauges_[key] = &queue_.Add({{"priority", key.first}, {"reason", key.second}});
    }
  }
  for (auto& [key, gauge] : queue_gauges_) {
    const auto found = depth.find(key);
    gauge->Set(found == depth.end() ? 0 : found->second);
  }
}

void CoordinatorMetrics::Workers(const std::map<std::string, double>& by_state) {
  for (const auto& [state, value] : by_state) {
    if (!worker_gauges_.contains(state)) {
      worker_gauges_[state] = &workers_.Add({{"state", state}});
    }
  }
  for (auto& [state, gauge] : worker_gauges_) {
    const auto found = by_state.find(state);
    gauge->Set(found == by_state.end() ? 0 : found->second);
  }
}

}  // namespace ropelab::api
