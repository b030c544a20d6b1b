// v1::HeadScoreService: registered head scores. Thin: hands over to a pool; what is done stands in
// head_score_sets.h.
#pragma once

#include <memory>

#include "ropelab/v1/head_scores.grpc.pb.h"
#include "server/api/service_context.h"

namespace ropelab::api {

// What `context` names must outlive the gRPC server that the service is registered with.
std::unique_ptr<v1::HeadScoreService::CallbackService> MakeHeadScoreService(const ServiceContext& context);

}  // namespace ropelab::api
