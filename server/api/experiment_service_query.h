// Get, List and Cancel.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "server/api/service_context.h"

namespace ropelab::api {

absl::Status Get(const ServiceContext& context, const v1::GetRequest& request, v1::Experiment& response);
// Newest first. INVALID_ARGUMENT for a state or a kind that does not exist, with those that do.
absl::Status List(const ServiceContext& context, const v1::ListRequest& request, v1::ListResponse& response);

// Cancelling what is cancelled is OK; FAILED_PRECONDITION for what ended otherwise. `done` is called exactly
// once, on a thread of context.requests, after the cancellation is durable; `response` is the experiment as
// it is then. UNAVAILABLE when the coordinator stopped in between: ask again.
void Cancel(const ServiceContext& context, const v1::CancelRequest& request, v1::Experiment& response,
            absl::AnyInvocable<void(absl::Status)> done);

}  // namespace ropelab::api
