// Result tables and artifacts, to a visitor or a message.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "server/api/service_context.h"

namespace ropelab::api {

absl::Status ListResults(const ServiceContext& context, const v1::ListResultsRequest& request,
                         v1::ListResultsResponse& response);

// Calls `send` for each slice, in row order, waiting for it. NOT_FOUND names the tables that exist;
// FAILED_PRECONDITION while the experiment has no results yet.
absl::Status ReadResults(const ServiceContext& context, const v1::ResultsRequest& request,
                         const std::function<absl::Status(v1::TableSlice)>& send);

// Pieces of at most 1 MiB; the first carries size and hash, and comes even when the artifact is empty.
absl::Status ReadArtifact(const ServiceContext& context, const v1::ArtifactRequest& request,
                          const std::function<absl::Status(v1::ArtifactData)>& send);

}  // namespace ropelab::api
