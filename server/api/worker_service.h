// WorkerService on gRPC's callback API: one reactor per stream of a worker, which only hands over between the
// wire and the coordinator; documents of corpora are read on the pool for them.
#pragma once

#include <memory>

#include "ropelab/v1/worker_service.grpc.pb.h"
#include "server/api/service_context.h"

namespace ropelab::api {

// What `context` names must outlive the gRPC server that the service is registered with.
std::unique_ptr<v1::WorkerService::CallbackService> MakeWorkerService(const ServiceContext& context);

}  // namespace ropelab::api
