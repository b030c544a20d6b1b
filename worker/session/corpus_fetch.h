// One document of a corpus from the server, over a connection of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "ropelab/v1/worker_service.grpc.pb.h"
#include "worker/session/backoff.h"

namespace ropelab::session {

// Told bytes and total while a document comes, and again and again while nothing does; another status than OK
// ends the fetch with it.
using FetchProgress = absl::FunctionRef<absl::Status(int64_t done, int64_t total)>;

// One thread only.
class CorpusFetcher {
 public:
  struct Options {
    std::function<std::shared_ptr<grpc::Channel>()> channel;  // a fresh one at each call
    std::string token;                                        // sent as a bearer token; empty: none
    std::chrono::milliseconds silence{20000};                 // a stream that says nothing so long is cut
    std::chrono::milliseconds give_up{120000};                // longer than a lease lives without its server
    uint64_t backoff_seed = 0;
  };
  explicit CorpusFetcher(Options options) : options_(std::move(options)) {}

  // The document's bytes. Tries again, with pauses, while the server is away or busy. FAILED_PRECONDITION:
  // the server has no such document, or what it has is damaged; UNAVAILABLE and others: it did not come
  // within `give_up`, or not as its hash says.
  absl::StatusOr<std::string> Fetch(const std::string& corpus, int64_t document, FetchProgress progress);

 private:
  class Attempt;
  absl::StatusOr<std::string> Try(const v1::ReadCorpusRequest& request, FetchProgress progress, bool& again);

  const Options options_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace ropelab::session
