// From the store's and the experiments' statuses to what travels to a client.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::api {

// INVALID_ARGUMENT with a line per problem, `field: value "x": remedy`, and the same as a serialized
// v1::ValidateResponse in the status's details. Trailing metadata are limited (8 KiB in gRPC), so a long list
// is cut in both, and the message then says so: Validate gives all.
absl::Status ProblemsStatus(const std::vector<v1::FieldProblem>& problems);

// Codes are equal by number; messages over 2 KiB are cut. UNAVAILABLE carries kFromServer in its details, by
// which a client tells the server's own words from those of a connection that failed. The store's
// UNAVAILABLE becomes INTERNAL: the server is there, its disk or database is not.
grpc::Status ToGrpc(const absl::Status& status);

// For a worker the store's UNAVAILABLE stays what it is: it waits and tries again where a client is told.
absl::Status ForWorker(const absl::Status& status);

}  // namespace ropelab::api
