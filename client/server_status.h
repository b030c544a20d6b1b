// How a command ends: the exit codes that scripts rely on, and what a status says about where it came from.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::client {

enum class ExitCode {
  kDone = 0,
  kFailed = 1,  // the experiment failed or was cancelled
  kUsage = 2,   // wrong arguments, a spec that does not parse, a local file that cannot be read or written
  kUnreachable = 3,  // the server was not reached, or went away
  kRefused = 4,      // the server was reached and said no
};

// A server's answer as an absl::Status that remembers that it is one. `server` is the address that was
// called. Field problems travel in the binary details as a ValidateResponse and are kept. What a server says
// itself is kept word for word, UNAVAILABLE too (common/service/own_words.h).
absl::Status FromServer(const grpc::Status& status, const std::string& server);

// True when the call may succeed once the server is back: it was not reached, or the connection broke.
bool IsUnreachable(const absl::Status& status);

// Empty unless the server refused fields of a spec.
std::vector<v1::FieldProblem> ProblemsOf(const absl::Status& status);

// Statuses that did not come from the server are the caller's mistake: kUsage.
ExitCode ExitCodeOf(const absl::Status& status);

// "path: "value": remedy", without the value when the field is missing.
std::string RenderProblem(const v1::FieldProblem& problem);

// The lines for stderr, each ended.
std::string RenderError(const absl::Status& status);

}  // namespace ropelab::client
