// The coordinator's metrics. Labels are bounded: kinds, outcomes, priorities, reasons and states, never an
// id.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace ropelab::api {

class CoordinatorMetrics {
 public:
  explicit CoordinatorMetrics(std::shared_ptr<prometheus::Registry> registry);

  void Task(const std::string& kind, const std::string& outcome);  // ropelab_tasks_total
  void AttemptLost(const std::string& cause);                      // ropelab_attempts_lost_total
  // Tasks pending or leased, by (priority, reason why they wait); sets those not named to 0.
  void QueueDepth(const std::map<std::pair<std::string, std::string>, double>& depth);
  void Workers(const std::map<std::string, double>& by_state);

  prometheus::Counter& grants;
  prometheus::Counter& acknowledgements;
  prometheus::Counter& readings;
  prometheus::Counter& reading_bytes;
  prometheus::Counter& artifact_bytes;
  prometheus::Counter& duplicates;
  prometheus::Counter& divergent;
  prometheus::Counter& fenced;
  prometheus::Counter& lease_expiries;
  prometheus::Histogram& commit_seconds;
  prometheus::Histogram& cancel_to_idle_seconds;
  prometheus::Histogram& reduce_seconds;

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& tasks_;
  prometheus::Family<prometheus::Counter>& lost_;
  prometheus::Family<prometheus::Gauge>& queue_;
  prometheus::Family<prometheus::Gauge>& workers_;
  std::map<std::pair<std::string, std::string>, prometheus::Gauge*> queue_gauges_;
  std::map<std::string, prometheus::Gauge*> worker_gauges_;
};

}  // namespace ropelab::api
