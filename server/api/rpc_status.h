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

// Codes are equal by number; messages over 2 KiB are cut.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace ropelab::api
