// What a worker counts. Every series carries the prefix ropelab_worker_; labels are kinds and outcomes only.
#pragma once

#include <memory>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace ropelab::session {

// Safe from any thread.
class WorkerMetrics {
 public:
  explicit WorkerMetrics(std::shared_ptr<prometheus::Registry> registry);

  // outcome: done, failed, refused (permanent), abandoned.
  void TaskEnded(const std::string& kind, const std::string& outcome, double seconds);
  // From the loss of a running task's lease (cancelled, fenced, revoked, silence) to an idle device.
  void StoppedTask(double seconds) { stop_seconds_->Observe(seconds); }
  // outcome: loaded, refused (too large, or not what the task names), failed, cancelled. `seconds` with the
  // hashing of weights whose hash was not known; `bytes` as resident, 0 unless loaded.
  void ModelLoad(const std::string& outcome, double seconds, double bytes);
  void ResidentModels(double bytes) { resident_bytes_->Set(bytes); }
  void Memory(double bytes) { memory_bytes_->Set(bytes); }
  void ReadingSent(double bytes);
  void ArtifactSent(double bytes) { reading_bytes_->Increment(bytes); }
  void Connected(bool connected);  // the end or the beginning of a session

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>* tasks_;
  prometheus::Family<prometheus::Histogram>* task_seconds_;
  prometheus::Histogram* stop_seconds_;
  prometheus::Counter* readings_;
  prometheus::Counter* reading_bytes_;
  prometheus::Counter* connections_;
  prometheus::Family<prometheus::Counter>* loads_;
  prometheus::Histogram* load_seconds_;
  prometheus::Counter* load_bytes_;
  prometheus::Gauge* connected_;
  prometheus::Gauge* resident_bytes_;
  prometheus::Gauge* memory_bytes_;
};

}  // namespace ropelab::session
