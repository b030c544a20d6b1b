// The gRPC server: its limits, its credentials, its address.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/server.h"
#include "server/api/server_options.h"

namespace ropelab::api {

struct Listening {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // HOST:PORT as bound
};

// Serves `services` (they must outlive the server), the gRPC health service and reflection. Errors name the
// address, or the TLS file that cannot be read.
absl::StatusOr<Listening> Listen(const ServerOptions& options, const std::vector<grpc::Service*>& services);

// gRPC's own log lines become ours, at debug level: what matters of them is told by statuses. Once, in
// main().
void RouteGrpcLog();

}  // namespace ropelab::api
