// What is known of models and workers.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "server/api/service_context.h"
#include "server/store/models.h"

namespace ropelab::api {

// `connected`: the workers that are there now.
v1::KnownModel DescribeModel(const store::ModelRow& row, const std::vector<v1::ConnectedWorker>& connected);

absl::Status ListModels(const ServiceContext& context, const v1::ListModelsRequest& request,
                        v1::ListModelsResponse& response);
absl::Status ListWorkers(const ServiceContext& context, const v1::ListWorkersRequest& request,
                         v1::ListWorkersResponse& response);

}  // namespace ropelab::api
