// The services' metrics: ropelab_rpc_seconds{method,outcome}, ropelab_submits_total{kind},
// ropelab_corpus_bytes_read_total, ropelab_corpus_bytes_added_total, ropelab_build_info.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "grpcpp/support/status.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace ropelab::api {

// Any thread. `registry` is kept alive.
class ServiceMetrics {
 public:
  explicit ServiceMetrics(std::shared_ptr<prometheus::Registry> registry);
  // `outcome` is the status code's name in small letters, "ok", "not_found", ...
  void RpcEnded(const char* method, grpc::StatusCode code, std::chrono::nanoseconds duration);
  void Submitted(const std::string& kind);
  void CorpusRead(double bytes) { corpus_bytes_read_.Increment(bytes); }    // to workers
  void CorpusAdded(double bytes) { corpus_bytes_added_.Increment(bytes); }  // from clients

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Histogram>& rpc_seconds_;
  prometheus::Family<prometheus::Counter>& submits_;
  prometheus::Counter& corpus_bytes_read_;
  prometheus::Counter& corpus_bytes_added_;
};

}  // namespace ropelab::api
