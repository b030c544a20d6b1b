// The flags of ropelab-server.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "server/api/coordinator.h"

namespace ropelab::api {

struct ServerOptions {
  std::string data_dir;
  std::string listen = "127.0.0.1:7400";
  std::string metrics = "127.0.0.1:7401";
  std::string corpora;
  std::string tls_cert, tls_key, tls_client_ca;
  bool insecure = false;
  double lease_seconds = 30;
  double heartbeat_seconds = 0;  // 0: a sixth of the lease
  int64_t max_attempts = 5;
  double keep_readings_days = 0;  // 0: for ever
};

// Options, or the code to exit with: help, version and usage errors are printed already.
std::variant<ServerOptions, int> ParseServerOptions(int argc, char** argv);

// What no single flag tells: TLS files in pairs, listening beyond this host, heartbeats against leases.
// INVALID_ARGUMENT names the flag, its value and what would be right.
absl::Status CheckServerOptions(const ServerOptions& options);

CoordinatorOptions CoordinatorOptionsOf(const ServerOptions& options);

}  // namespace ropelab::api
