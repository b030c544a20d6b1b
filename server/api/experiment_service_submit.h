// Validate and Submit: from a typed spec to rows in the store.
#pragma once

#include "absl/status/status.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "server/api/service_context.h"

namespace ropelab::api {

// Fills in problems, or estimates. Not OK only when the store cannot be read.
absl::Status Validate(const ServiceContext& context, const v1::ValidateRequest& request,
                      v1::ValidateResponse& response);

// Returns after the commit. INVALID_ARGUMENT as ProblemsStatus says; RESOURCE_EXHAUSTED when the disk is
// full; ALREADY_EXISTS when the request id was used for another spec.
absl::Status Submit(const ServiceContext& context, const v1::SubmitRequest& request,
                    v1::SubmitResponse& response);

}  // namespace ropelab::api
