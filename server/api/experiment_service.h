// v1::ExperimentService: what a researcher's client asks for. The methods are thin: hand over to a pool,
// convert one status, count one metric; what they do stands in experiment_service_*.h.
#pragma once

#include <chrono>
#include <memory>

#include "ropelab/v1/experiment_service.grpc.pb.h"
#include "server/api/experiment_service_watch.h"
#include "server/api/service_context.h"

namespace ropelab::api {

struct ExperimentServiceOptions {
  WatchPace watch_pace;
  std::chrono::nanoseconds stream_patience = std::chrono::seconds(30);  // with a client that reads nothing
};

class ExperimentService : public v1::ExperimentService::CallbackService {
 public:
  // Shut the gRPC server down before this goes. The pools in `context` must be there until then.
  static std::unique_ptr<ExperimentService> Create(const ServiceContext& context,
                                                   const ExperimentServiceOptions& options = {});
  // Ends the watches (UNAVAILABLE), which would keep a server that shuts down waiting. Other requests go on.
  virtual void StopWatches() = 0;
};

}  // namespace ropelab::api
