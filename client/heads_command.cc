// `ropelab heads`: published scores of heads, registered, shown, and compared with a detection.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands.h"
#include "client/heads_view.h"
#include "client/json_view.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace ropelab::client {
namespace {

constexpr int64_t kMostBytes = int64_t{32} << 20;  // as the server takes
constexpr size_t kPieceBytes = size_t{1} << 20;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
    }
  }
  std::istream& input = path == "-" ? std::cin : file;
  std::string content(static_cast<size_t>(kMostBytes) + 1, '\0');
  errno = 0;
  input.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (input.bad() || (input.gcount() == 0 && errno != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  content.resize(static_cast<size_t>(input.gcount()));
  if (static_cast<int64_t>(content.size()) > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is larger than the ", kMostBytes,
                     " bytes that head scores may have: give fewer scores a head, or their mean alone"));
  }
  return content;
}

absl::StatusOr<ExitCode> Import(Session& session) {
  const Options& options = session.options;
  ROPELAB_ASSIGN_OR_RETURN(const std::string content, ReadFile(options.heads_file));
  v1::ImportHeadScoresResponse response;
  ROPELAB_RETURN_IF_ERROR(session.connection.Send<v1::ImportHeadScoresRequest>(
      &Connection::HeadScoreStub::ImportHeadScores, &response,
      [&](absl::FunctionRef<bool(const v1::ImportHeadScoresRequest&)> send) {
        v1::ImportHeadScoresRequest request;
        request.set_name(options.heads_name);
        request.set_user(UserName());
        bool taken = true;  // false: the server's answer says why
        size_t sent = 0;
        do {
          request.set_content(content.substr(sent, kPieceBytes));
          sent += kPieceBytes;
          taken = send(request);
          request.Clear();
        } while (taken && sent < content.size());
        return absl::OkStatus();
      }));
  if (options.json) {
    session.console.out << JsonText(ToJson(response));
    return ExitCode::kDone;
  }
  if (response.already_registered()) {
    session.console.err << "this very content is registered under that name already; nothing changed\n";
  }
  session.console.out << RenderHeadScoreSet(response.set());
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> List(Session& session) {
  v1::ListHeadScoresResponse response;
  ROPELAB_RETURN_IF_ERROR(session.connection.Call(&Connection::HeadScoreStub::ListHeadScores,
                                                  v1::ListHeadScoresRequest(), &response));
  session.console.out << (session.options.json
                              ? JsonText(ToJsonArray(response.sets()))
                              : RenderHeadScoreSets(response, Clock::Real().WallMicroseconds()));
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> Show(Session& session) {
  v1::GetHeadScoresRequest request;
  request.set_name(session.options.heads_name);
  v1::GetHeadScoresResponse response;
  ROPELAB_RETURN_IF_ERROR(
      session.connection.Call(&Connection::HeadScoreStub::GetHeadScores, request, &response));
  session.console.out << (session.options.json ? JsonText(ToJson(response)) : RenderHeadScores(response));
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> Overlap(Session& session) {
  const Options& options = session.options;
  v1::OverlapHeadScoresRequest request;
  request.set_name(options.heads_name);
  request.set_experiment(options.id);
  if (!options.heads_metric.empty()) {
    v1::Metric::Value metric = v1::Metric::UNSPECIFIED;
    if (!v1::Metric::Value_Parse(absl::AsciiStrToUpper(options.heads_metric), &metric) ||
        metric == v1::Metric::UNSPECIFIED) {
      return absl::InvalidArgumentError(
          absl::StrCat("--metric ", options.heads_metric,
                       ": is argmax, mass, copy_paper, copy_paper_per_token or copy_wu"));
    }
    request.set_metric(metric);
  }
  if (options.heads_top > 0) {
    request.set_top(options.heads_top);
  }
  v1::OverlapHeadScoresResponse response;
  ROPELAB_RETURN_IF_ERROR(
      session.connection.Call(&Connection::HeadScoreStub::OverlapHeadScores, request, &response));
  session.console.out << (options.json ? JsonText(ToJson(response)) : RenderHeadScoreOverlap(response));
  return ExitCode::kDone;
}

}  // namespace

absl::StatusOr<ExitCode> RunHeads(Session& session) {
  const std::string& action = session.options.heads_action;
  return action == "import"    ? Import(session)
         : action == "show"    ? Show(session)
         : action == "overlap" ? Overlap(session)
                               : List(session);
}

}  // namespace ropelab::client
