#include <pwd.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands.h"
#include "client/experiment_view.h"
#include "client/human.h"
#include "client/json_view.h"
#include "client/set_field.h"
#include "client/spec_file.h"
#include "common/status_macros.h"

namespace ropelab::client {
namespace {

// Enough for a server that is just restarting; --wait asks for more.
constexpr std::chrono::milliseconds kShortPatience{3000};

absl::StatusOr<v1::Submission> ReadSubmission(const Options& options) {
  ROPELAB_ASSIGN_OR_RETURN(const std::string text, ReadSpecFile(options.spec_path));
  ROPELAB_ASSIGN_OR_RETURN(v1::Submission submission, ParseSpec(options.spec_path, text));
  for (const std::string& assignment : options.assignments) {
    google::protobuf::Message* spec =
        submission.has_study() ? static_cast<google::protobuf::Message*>(submission.mutable_study())
                               : submission.mutable_experiment();
    ROPELAB_RETURN_IF_ERROR(SetField(assignment, spec));
  }
  return submission;
}

// A random UUID: the server gives the same experiments to the same id, so a submit whose answer was lost may
// be sent again.
absl::StatusOr<std::string> NewRequestId() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    return absl::UnavailableError("the system gives no random bytes for a request id");
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);
  std::string id;
  for (int i = 0; i < 16; ++i) {
    absl::StrAppend(&id, i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                    absl::Hex(bytes[i], absl::kZeroPad2));
  }
  return id;
}

}  // namespace

std::string UserName() {
  if (const passwd* entry = getpwuid(geteuid()); entry != nullptr && entry->pw_name != nullptr) {
    return entry->pw_name;
  }
  const char* user = std::getenv("USER");
  return user != nullptr && *user != '\0' ? user : absl::StrCat("uid-", geteuid());
}

absl::StatusOr<ExitCode> RunSubmit(Session& session) {
  const Options& options = session.options;
  Console& console = session.console;
  v1::SubmitRequest request;
  ROPELAB_ASSIGN_OR_RETURN(*request.mutable_submission(), ReadSubmission(options));
  ROPELAB_ASSIGN_OR_RETURN(*request.mutable_request_id(), NewRequestId());
  request.set_user(UserName());

  v1::SubmitResponse response;
  const std::chrono::milliseconds patience = options.wait ? options.patience.gone : kShortPatience;
  ROPELAB_RETURN_IF_ERROR(CallPatiently(
      &session.connection, patience,
      [&] { return session.connection.Call(&Connection::Stub::Submit, request, &response); },
      [&](const absl::Status& cause) {
        if (options.wait) {
          console.err << cause.message() << "; trying for " << HumanSeconds(patience.count() / 1000.0)
                      << std::endl;
        }
      }));

  for (const std::string& warning : response.warnings()) {
    console.err << "warning: " << PrintableLines(warning) << "\n";
  }
  if (options.json) {
    console.out << JsonLine(ToJson(response)) << "\n";
  } else {
    if (!response.study_id().empty()) {
      console.out << response.study_id() << "\n";
    }
    for (const std::string& id : response.experiment_ids()) {
      console.out << id << "\n";
    }
  }
  console.out.flush();
  console.err.flush();
  if (!options.wait || response.experiment_ids().empty()) {
    return ExitCode::kDone;
  }
  // Ids are the output; progress goes where a script does not read.
  const std::string& id = response.study_id().empty() ? response.experiment_ids(0) : response.study_id();
  return FollowToTheEnd(session, id, console.err, console.err_width, false);
}

absl::StatusOr<ExitCode> RunValidate(Session& session) {
  v1::ValidateRequest request;
  ROPELAB_ASSIGN_OR_RETURN(*request.mutable_submission(), ReadSubmission(session.options));
  v1::ValidateResponse response;
  ROPELAB_RETURN_IF_ERROR(session.connection.Call(&Connection::Stub::Validate, request, &response));
  if (session.options.json) {
    session.console.out << JsonText(ToJson(response));
  } else {
    session.console.out << RenderEstimates(response);
  }
  if (response.problems().empty()) {
    return ExitCode::kDone;
  }
  for (const v1::FieldProblem& problem : response.problems()) {
    session.console.err << RenderProblem(problem) << "\n";
  }
  return ExitCode::kRefused;
}

}  // namespace ropelab::client
