// The commands that ask one question and print the answer.
#include "client/commands.h"
#include "client/experiment_view.h"
#include "client/inventory_view.h"
#include "client/json_view.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace ropelab::client {
namespace {

int64_t Now() {
  return Clock::Real().WallMicroseconds();
}

}  // namespace

absl::StatusOr<ExitCode> RunList(Session& session) {
  const Options& options = session.options;
  v1::ListRequest request;
  request.set_user(options.user);
  request.set_state(options.state);
  request.set_kind(options.kind);
  request.set_model(options.model);
  request.set_tag(options.tag);
  v1::ListResponse response;
  ROPELAB_RETURN_IF_ERROR(session.connection.Call(&Connection::Stub::List, request, &response));
  const bool filtered = !options.user.empty() || !options.state.empty() || !options.kind.empty() ||
                        !options.model.empty() || !options.tag.empty();
  if (options.json) {
    session.console.out << JsonText(ToJsonArray(response.experiments()));
  } else if (filtered && response.experiments().empty()) {
    session.console.out << "no experiment is like that; ropelab list, without flags, shows all\n";
  } else {
    session.console.out << RenderExperimentList(
        {response.experiments().begin(), response.experiments().end()}, Now());
  }
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RunShow(Session& session) {
  v1::GetRequest request;
  request.set_id(session.options.id);
  v1::Experiment experiment;
  ROPELAB_RETURN_IF_ERROR(session.connection.Call(&Connection::Stub::Get, request, &experiment));
  session.console.out << (session.options.json ? JsonText(ToJson(experiment))
                                               : RenderExperiment(experiment, Now()));
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RunProvenance(Session& session) {
  v1::ProvenanceRequest request;
  request.set_id(session.options.id);
  v1::Provenance provenance;
  ROPELAB_RETURN_IF_ERROR(session.connection.Call(&Connection::Stub::GetProvenance, request, &provenance));
  while (provenance.more_tasks()) {
    request.set_skip_tasks(provenance.tasks_size());
    v1::Provenance page;
    ROPELAB_RETURN_IF_ERROR(session.connection.Call(&Connection::Stub::GetProvenance, request, &page));
    provenance.mutable_tasks()->MergeFrom(page.tasks());
    provenance.set_more_tasks(page.more_tasks() && page.tasks_size() > 0);
  }
  session.console.out << (session.options.json ? JsonText(ToJson(provenance)) : RenderProvenance(provenance));
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RunModels(Session& session) {
  v1::ListModelsResponse response;
  ROPELAB_RETURN_IF_ERROR(
      session.connection.Call(&Connection::Stub::ListModels, v1::ListModelsRequest(), &response));
  session.console.out << (session.options.json ? JsonText(ToJsonArray(response.models()))
                                               : RenderModels(response, Now()));
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RunWorkers(Session& session) {
  v1::ListWorkersResponse response;
  ROPELAB_RETURN_IF_ERROR(
      session.connection.Call(&Connection::Stub::ListWorkers, v1::ListWorkersRequest(), &response));
  session.console.out << (session.options.json ? JsonText(ToJsonArray(response.workers()))
                                               : RenderWorkers(response, Now()));
  return ExitCode::kDone;
}

}  // namespace ropelab::client
