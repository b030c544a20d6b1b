#include "server/api/service_metrics.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "common/version.h"
#include "prometheus/gauge.h"

namespace ropelab::api {

ServiceMetrics::ServiceMetrics(std::shared_ptr<prometheus::Registry> registry)
    : registry_(std::move(registry)),
      rpc_seconds_(prometheus::BuildHistogram()
                       .Name("ropelab_rpc_seconds")
                       .Help("Time from a client's request to its answer, streams to their end.")
                       .Register(*registry_)),
      submits_(prometheus::BuildCounter()
                   .Name("ropelab_submits_total")
                   .Help("Experiments submitted and committed.")
                   .Register(*registry_)),
      corpus_bytes_read_(prometheus::BuildCounter()
                             .Name("ropelab_corpus_bytes_read_total")
                             .Help("Bytes of corpora that workers read.")
                             .Register(*registry_)
                             .Add({})),
      corpus_bytes_added_(prometheus::BuildCounter()
                              .Name("ropelab_corpus_bytes_added_total")
                              .Help("Bytes of corpora that clients sent.")
                              .Register(*registry_)
                              .Add({})) {
  prometheus::BuildGauge()
      .Name("ropelab_build_info")
      .Help("Always 1; the labels say what runs.")
      .Register(*registry_)
      .Add({{"version", Version()}, {"commit", GitCommit()}})
      .Set(1);
}

void ServiceMetrics::RpcEnded(const char* method, grpc::StatusCode code, std::chrono::nanoseconds duration) {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60};
  const std::string outcome =
      absl::AsciiStrToLower(absl::StatusCodeToString(static_cast<absl::StatusCode>(code)));
  rpc_seconds_.Add({{"method", method}, {"outcome", outcome}}, buckets)
      .Observe(std::chrono::duration<double>(duration).count());
}

void ServiceMetrics::Submitted(const std::string& kind) {
  submits_.Add({{"kind", kind}}).Increment();
}

}  // namespace ropelab::api
