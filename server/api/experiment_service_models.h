// What is known of models and workers.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "server/api/service_context.h"
#include "server/store/models.h"

namespace ropelab::api {

// `holdings`: what the workers that are connected hold. One that has not hashed its weights yet counts by the
// rest.
v1::KnownModel DescribeModel(const store::ModelRow& row, const std::vector<Holding>& holdings);

absl::Status ListModels(const ServiceContext& context, const v1::ListModelsRequest& request,
                        v1::ListModelsResponse& response);
absl::Status ListWorkers(const ServiceContext& context, const v1::ListWorkersRequest& request,
                         v1::ListWorkersResponse& response);

}  // namespace ropelab::api
