// The process's metrics: one registry and one HTTP endpoint with /metrics and /healthz. Names start with
// ropelab_, in base units, counters end in _total; labels are bounded.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace ropelab {

class MetricsEndpoint {
 public:
  // `address` is HOST:PORT (IPv4), port 0 picks a free one. `healthy` gives "" or what is wrong; /healthz
  // answers 200 or 503.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& address, std::shared_ptr<prometheus::Registry> registry,
      std::function<std::string()> healthy);
  ~MetricsEndpoint();
  std::string address() const;  // HOST:PORT as bound

 private:
  MetricsEndpoint();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ropelab
