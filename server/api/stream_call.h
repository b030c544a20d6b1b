// What a call that is served on a pool's thread goes through, whatever its service.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/api/service_metrics.h"
#include "server/api/stream_writer.h"
#include "server/api/work_pool.h"

namespace ropelab::api {

inline absl::Status Busy() {
  return absl::ResourceExhaustedError("the server has too many requests waiting; try again in a moment");
}

// Runs a handler; what throws (memory that ran out) becomes a status.
template <typename Handler>
absl::Status Guarded(Handler&& handler) {
  try {
    return handler();
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("the request failed: ", error.what()));
  }
}

// A request that waited until nobody wants its answer is not worked on.
inline absl::Status StillWanted(grpc::CallbackServerContext* call) {
  if (call->IsCancelled()) {
    return absl::CancelledError("the client went away");
  }
  if (call->deadline() <= std::chrono::system_clock::now()) {
    return absl::DeadlineExceededError("the deadline passed while the request waited");
  }
  return absl::OkStatus();
}

// A server stream whose messages `read(send)` makes on a thread of `pool`. `method` labels its metric.
// `patience` is that with a client that takes nothing.
template <typename Message>
grpc::ServerWriteReactor<Message>* ServeStream(
    const char* method, grpc::CallbackServerContext* call, WorkPool* pool, ServiceMetrics* metrics,
    std::chrono::nanoseconds patience,
    std::function<absl::Status(const std::function<absl::Status(Message)>&)> read) {
  const auto started = std::chrono::steady_clock::now();
  auto* writer = new StreamWriter<Message>(call, patience, [metrics, method, started](grpc::StatusCode code) {
    metrics->RpcEnded(method, code, std::chrono::steady_clock::now() - started);
  });  // deletes itself
  const bool taken = pool->Run([call, writer, read = std::move(read)] {
    absl::Status status = StillWanted(call);
    if (status.ok()) {
      status = Guarded(
          [&] { return read([writer](Message message) { return writer->Write(std::move(message)); }); });
    }
    writer->End(status);
  });
  if (!taken) {
    writer->End(Busy());
  }
  return writer;
}

}  // namespace ropelab::api
