#include "client/server_status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "client/human.h"
#include "common/service/own_words.h"

namespace ropelab::client {
namespace {

constexpr char kOrigin[] = "ropelab/from-server";

}  // namespace

absl::Status FromServer(const grpc::Status& status, const std::string& server) {
  if (status.ok()) {
    return absl::OkStatus();
  }
  std::string message = status.error_message();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && status.error_details() == kFromServer) {
    message = absl::StrCat("the server at ", server, " says: ", message);
  } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    message = absl::StrCat(
        "no server answers at ", server,
        ": is `ropelab up` or ropelab-server running? (--server or ROPELAB_SERVER names another)");
  } else if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    message = absl::StrCat("the server at ", server,
                           " did not answer in time: is it overloaded, or the network slow? Try again");
  } else if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    message = absl::StrCat("the server at ", server, " does not know this call (", message,
                           "): is it a ropelab-server of this version?");
  } else if (message.empty()) {
    message = absl::StrCat("the server at ", server, " refused without a reason (gRPC code ",
                           static_cast<int>(status.error_code()), ")");
  }
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), message);
  result.SetPayload(kOrigin, absl::Cord(status.error_details()));
  return result;
}

bool IsUnreachable(const absl::Status& status) {
  if (!status.GetPayload(kOrigin).has_value()) {
    return false;
  }
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

std::vector<v1::FieldProblem> ProblemsOf(const absl::Status& status) {
  const auto details = status.GetPayload(kOrigin);
  v1::ValidateResponse response;
  if (!absl::IsInvalidArgument(status) || !details.has_value() ||
      !response.ParseFromString(std::string(*details))) {
    return {};
  }
  return {response.problems().begin(), response.problems().end()};
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) {
    return ExitCode::kDone;
  }
  if (!status.GetPayload(kOrigin).has_value()) {
    return ExitCode::kUsage;
  }
  return IsUnreachable(status) ? ExitCode::kUnreachable : ExitCode::kRefused;
}

std::string RenderProblem(const v1::FieldProblem& problem) {
  if (problem.value().empty()) {
    return absl::StrCat(Printable(problem.field()), ": ", Printable(problem.remedy()));
  }
  return absl::StrCat(Printable(problem.field()), ": \"", Printable(problem.value()),
                      "\": ", Printable(problem.remedy()));
}

std::string RenderError(const absl::Status& status) {
  const std::vector<v1::FieldProblem> problems = ProblemsOf(status);
  if (problems.empty()) {
    return absl::StrCat("ropelab: ", PrintableLines(std::string(status.message())), "\n");
  }
  std::string text = absl::StrCat("ropelab: the server refuses the spec for ", problems.size(),
                                  problems.size() == 1 ? " reason:\n" : " reasons:\n");
  for (const v1::FieldProblem& problem : problems) {
    absl::StrAppend(&text, RenderProblem(problem), "\n");
  }
  return text;
}

}  // namespace ropelab::client
