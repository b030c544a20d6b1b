// A call of one request and one answer, served on a thread of the pool of requests, whatever its service.
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"
#include "server/api/service_context.h"
#include "server/api/stream_call.h"

namespace ropelab::api {

// Logs what a client cannot mend.
void LogTrouble(const char* method, const absl::Status& status);

// Ends a call that came at `started`.
void AnswerUnary(const ServiceContext& context, const char* method, grpc::ServerUnaryReactor* reactor,
                 const absl::Status& status, std::chrono::steady_clock::time_point started);

// `context` must outlive the call. `method` labels its metric.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* ServeUnary(const ServiceContext& context, const char* method,
                                     grpc::CallbackServerContext* call, const Request* request,
                                     Response* response,
                                     absl::Status (*handler)(const ServiceContext&, const Request&,
                                                             Response&)) {
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  const auto started = std::chrono::steady_clock::now();
  const bool taken = context.requests->Run([=, &context] {
    absl::Status status = StillWanted(call);
    if (status.ok()) {
      status = Guarded([&] { return handler(context, *request, *response); });
    }
    AnswerUnary(context, method, reactor, status, started);
  });
  if (!taken) {
    AnswerUnary(context, method, reactor, Busy(), started);
  }
  return reactor;
}

}  // namespace ropelab::api
