#include "common/service/metrics.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "CivetServer.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "prometheus/exposer.h"

namespace ropelab {
namespace {

// prometheus-cpp serves metrics only and keeps civetweb's user data for itself; the request callback
// therefore finds the health check of its endpoint by the port that the request came in at.
class HealthChecks {
 public:
  static HealthChecks& Get() {
    static auto* checks = new HealthChecks;
    return *checks;
  }
  void Set(int port, std::function<std::string()> healthy) ROPELAB_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (healthy == nullptr) {
      by_port_.erase(port);
    } else {
      by_port_[port] = std::move(healthy);
    }
  }
  std::string Ask(int port) ROPELAB_EXCLUDES(mutex_) {
    std::function<std::string()> healthy;
    {
      MutexLock lock(&mutex_);
      const auto found = by_port_.find(port);
      if (found == by_port_.end()) {
        return "starting";
      }
      healthy = found->second;
    }
    return healthy();
  }

 private:
  Mutex mutex_;
  std::map<int, std::function<std::string()>> by_port_ ROPELAB_GUARDED_BY(mutex_);
};

// Answers /healthz; 0 leaves a request to the metrics handler.
int BeginRequest(mg_connection* connection) {
  const mg_request_info* request = mg_get_request_info(connection);
  if (std::string_view(request->local_uri) != "/healthz") {
    return 0;
  }
  const std::string problem = HealthChecks::Get().Ask(request->server_port);
  const std::string body = problem.empty() ? "ok\n" : absl::StrCat(problem, "\n");
  mg_printf(connection,
            "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
            problem.empty() ? "200 OK" : "503 Service Unavailable", body.size(), body.c_str());
  return problem.empty() ? 200 : 503;
}

// Why an address could not be listened on.
std::string WhyNotBound(const std::string& host, int port) {
  sockaddr_in wanted{};
  wanted.sin_family = AF_INET;
  wanted.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &wanted.sin_addr) != 1) {
    return absl::StrCat("\"", host, "\" is no IPv4 address");
  }
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int reuse = 1;
  setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
  const bool bound =
      bind(probe, reinterpret_cast<const sockaddr*>(&wanted), sizeof(wanted)) == 0 && listen(probe, 1) == 0;
  const int error = errno;
  close(probe);
  if (bound) return "the port was taken and is free again";
  if (error == EADDRINUSE) return "another process has the port";
  if (error == EADDRNOTAVAIL) return "the host is no address of this machine";
  if (error == EACCES) return "ports below 1024 need a privilege";
  return std::strerror(error);
}

}  // namespace

struct MetricsEndpoint::State {
  std::string host;
  int port = 0;
  std::shared_ptr<prometheus::Registry> registry;
  std::unique_ptr<prometheus::Exposer> exposer;
};

MetricsEndpoint::MetricsEndpoint() : state_(std::make_unique<State>()) {}

MetricsEndpoint::~MetricsEndpoint() {
  HealthChecks::Get().Set(state_->port, nullptr);
}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& address, std::shared_ptr<prometheus::Registry> registry,
    std::function<std::string()> healthy) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metrics address \"", address, "\" is not HOST:PORT with an IPv4 host, as 127.0.0.1:7401"));
  }
  auto endpoint = std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint());
  State& state = *endpoint->state_;
  state.host = address.substr(0, colon);
  if (state.host == "localhost") {
    state.host = "127.0.0.1";
  }
  state.registry = std::move(registry);
  CivetCallbacks callbacks;
  callbacks.begin_request = BeginRequest;
  // A connection that says nothing holds a thread until the timeout.
  const std::vector<std::string> options = {"listening_ports",    absl::StrCat(state.host, ":", port),
                                            "num_threads",        "4",
                                            "request_timeout_ms", "1000"};
  try {
    state.exposer = std::make_unique<prometheus::Exposer>(options, &callbacks);
  } catch (const std::exception&) {  // its words name neither the address nor the cause
    return absl::UnavailableError(
        absl::StrCat("metrics cannot listen on ", address, ": ", WhyNotBound(state.host, port),
                     "; --metrics names another address, and port 0 takes a free one"));
  }
  state.exposer->RegisterCollectable(state.registry);
  state.port = state.exposer->GetListeningPorts().at(0);
  HealthChecks::Get().Set(state.port, std::move(healthy));
  return endpoint;
}

std::string MetricsEndpoint::address() const {
  return absl::StrCat(state_->host, ":", state_->port);
}

}  // namespace ropelab
