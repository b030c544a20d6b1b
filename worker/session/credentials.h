// How a worker reaches its server: plain text on loopback, TLS elsewhere unless the operator says --insecure
// aloud.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace ropelab::session {

struct ServerAddress {
  std::string target;  // HOST:PORT
  std::string tls_ca;  // PEM file; empty: plain text
  bool insecure = false;
};

// True for 127.0.0.0/8, [::1] and localhost.
bool IsLoopback(const std::string& target);
// INVALID_ARGUMENT when plain text would leave this host without --insecure, or the file cannot be read.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const ServerAddress& address);
// A channel of its own, sharing no connection and no back-off with an earlier one.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target,
                                           const std::shared_ptr<grpc::ChannelCredentials>& credentials);
// gRPC's own log lines go to ours, at debug level: what matters of them arrives as a status.
void RouteGrpcLog();
// The token in a file, without the white space around it.
absl::StatusOr<std::string> ReadToken(const std::string& path);

}  // namespace ropelab::session
