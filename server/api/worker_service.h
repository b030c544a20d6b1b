// WorkerService on gRPC's callback API: one reactor per stream, which only hands over between the wire and
// the coordinator.
#pragma once

#include <memory>

#include "ropelab/v1/worker_service.grpc.pb.h"
#include "server/api/coordinator.h"

namespace ropelab::api {

// The coordinator must outlive the gRPC server that the service is registered with.
std::unique_ptr<v1::WorkerService::CallbackService> MakeWorkerService(Coordinator* coordinator);

}  // namespace ropelab::api
