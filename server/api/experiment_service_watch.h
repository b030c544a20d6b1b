// Watch: the state of experiments as a stream. The coordinator says that something moved; a watch then reads
// the present state and sends it, so that however much moves and however slowly a client reads, at most one
// event waits.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "grpcpp/support/server_callback.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "server/api/service_context.h"

namespace ropelab::api {

struct WatchPace {
  std::chrono::milliseconds shortest{200};  // between two events
  std::chrono::milliseconds longest{5000};  // an event comes at least this often
};

class WatchHub {
 public:
  static std::unique_ptr<WatchHub> Create(const ServiceContext& context, const WatchPace& pace);
  // After Stop, and after the gRPC server has shut down.
  virtual ~WatchHub() = default;
  // `id`: an experiment's or a study's. The reactor owns itself.
  virtual grpc::ServerWriteReactor<v1::WatchEvent>* Open(const std::string& id) = 0;
  // Ends every watch with UNAVAILABLE, so that clients come back to the next process, and refuses new ones.
  virtual void Stop() = 0;
};

}  // namespace ropelab::api
