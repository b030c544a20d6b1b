// Cancelling an experiment, or what is left of a study.
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands.h"
#include "client/experiment_view.h"
#include "client/human.h"
#include "client/json_view.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace ropelab::client {
namespace {

absl::StatusOr<v1::Experiment> CancelOne(Session& session, const std::string& id) {
  v1::CancelRequest request;
  request.set_id(id);
  request.set_user(UserName());
  v1::Experiment experiment;
  ROPELAB_RETURN_IF_ERROR(session.connection.Call(&Connection::Stub::Cancel, request, &experiment));
  return experiment;
}

// As they stand now: a watch begins with them.
absl::StatusOr<std::vector<v1::Experiment>> ExperimentsOfStudy(Session& session, const std::string& study) {
  v1::WatchRequest request;
  request.set_id(study);
  const auto stream = session.connection.Open(&Connection::Stub::AsyncWatch, request);
  v1::WatchEvent event;
  if (!stream->Next(&event, session.options.patience.silence)) {
    return stream->status().ok() ? absl::NotFoundError(absl::StrCat("study ", study, " has no experiments"))
                                 : stream->status();
  }
  return std::vector<v1::Experiment>(event.experiments().begin(), event.experiments().end());
}

std::string RenderCancelled(const std::string& study, size_t all,
                            const std::vector<v1::Experiment>& cancelled) {
  if (cancelled.empty()) {
    return absl::StrCat("study ", study, ": nothing to cancel, all ",
                        Counted(static_cast<int64_t>(all), "experiment"), " had ended\n");
  }
  const std::string ids = absl::StrJoin(
      cancelled, ", ", [](std::string* out, const v1::Experiment& one) { absl::StrAppend(out, one.id()); });
  return absl::StrCat("study ", study, ": cancelled ", cancelled.size(), " of ",
                      Counted(static_cast<int64_t>(all), "experiment"), ": ", Printable(ids),
                      cancelled.size() < all ? "; the others had ended\n" : "\n");
}

// The last first: what needs another's results would else end before its turn comes.
absl::StatusOr<ExitCode> CancelStudy(Session& session, const std::string& study) {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<v1::Experiment> experiments, ExperimentsOfStudy(session, study));
  std::vector<v1::Experiment> cancelled;
  for (auto experiment = experiments.rbegin(); experiment != experiments.rend(); ++experiment) {
    if (IsFinal(*experiment)) {
      continue;
    }
    absl::StatusOr<v1::Experiment> answer = CancelOne(session, experiment->id());
    if (answer.ok()) {
      cancelled.insert(cancelled.begin(), *std::move(answer));
    } else if (!absl::IsFailedPrecondition(answer.status())) {  // it ended in between
      return answer.status();
    }
  }
  session.console.out << (session.options.json ? JsonText(ToJsonArray(cancelled))
                                               : RenderCancelled(study, experiments.size(), cancelled));
  return ExitCode::kDone;
}

}  // namespace

absl::StatusOr<ExitCode> RunCancel(Session& session) {
  const std::string& id = session.options.id;
  if (absl::StartsWith(id, "s")) {
    return CancelStudy(session, id);
  }
  ROPELAB_ASSIGN_OR_RETURN(const v1::Experiment experiment, CancelOne(session, id));
  session.console.out << (session.options.json
                              ? JsonText(ToJson(experiment))
                              : RenderExperiment(experiment, Clock::Real().WallMicroseconds()));
  return ExitCode::kDone;
}

}  // namespace ropelab::client
