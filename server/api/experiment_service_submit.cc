#include "server/api/experiment_service_submit.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "server/api/catalogue.h"
#include "server/api/ids.h"
#include "server/api/rpc_status.h"
#include "server/experiments/kinds.h"
#include "server/store/experiments.h"
#include "server/store/models.h"
#include "spdlog/spdlog.h"

namespace ropelab::api {
namespace {

constexpr char kAnonymous[] = "anonymous";
constexpr size_t kNameBytes = 200;

std::string PriorityName(const v1::ExperimentSpec& spec) {
  switch (spec.priority()) {
    case v1::Priority::INTERACTIVE:
      return "interactive";
    case v1::Priority::BATCH:
      return "batch";
    default:
      return "normal";
  }
}

absl::StatusOr<experiments::ResolvedSubmission> Resolve(const ServiceContext& context,
                                                        const v1::Submission& submission,
                                                        std::vector<v1::FieldProblem>& problems,
                                                        std::vector<std::string>& warnings,
                                                        StoredCatalogue& catalogue) {
  ROPELAB_ASSIGN_OR_RETURN(catalogue, StoredCatalogue::Read(*context.store, submission));
  experiments::Problems found;
  experiments::ResolvedSubmission resolved = experiments::ResolveSubmission(submission, catalogue, found);
  problems = found.problems();
  warnings = found.warnings();
  return resolved;
}

store::ExperimentRow NewRow(const experiments::ResolvedExperiment& experiment, const std::string& owner,
                            const StoredCatalogue& catalogue, int64_t now_us) {
  store::ExperimentRow row;
  row.name = experiment.typed.name();
  row.kind = experiment.kind;
  row.owner = owner;
  row.spec = experiment.resolved.SerializeAsString();
  row.typed_spec = experiment.typed.SerializeAsString();
  row.spec_hash = experiment.spec_hash;
  row.state = "waiting";
  row.priority = PriorityName(experiment.resolved);
  row.warnings = absl::StrJoin(experiment.warnings, "\n");
  row.tags = absl::StrJoin(experiment.resolved.tags(), "\n");
  row.models = catalogue.ModelLines(experiment.resolved);
  row.submitted_us = now_us;
  return row;
}

absl::Status CheckNames(const v1::SubmitRequest& request) {
  std::vector<v1::FieldProblem> problems;
  auto add = [&](const char* field, const std::string& value, const std::string& remedy) {
    v1::FieldProblem& problem = problems.emplace_back();
    problem.set_field(field);
    problem.set_value(value);
    problem.set_remedy(remedy);
  };
  if (request.request_id().empty() || request.request_id().size() > kNameBytes ||
      !IsPlainText(request.request_id())) {
    add("request_id", request.request_id(),
        absl::StrCat("a text of 1 to ", kNameBytes,
                     " bytes without control characters that the client draws for each submit and repeats "
                     "when it tries again"));
  }
  if (request.user().size() > kNameBytes || !IsPlainText(request.user())) {
    add("user", request.user(),
        absl::StrCat("a name of at most ", kNameBytes, " bytes without control characters"));
  }
  return problems.empty() ? absl::OkStatus() : ProblemsStatus(problems);
}

}  // namespace

absl::Status Validate(const ServiceContext& context, const v1::ValidateRequest& request,
                      v1::ValidateResponse& response) {
  std::vector<v1::FieldProblem> problems;
  std::vector<std::string> warnings;
  StoredCatalogue catalogue;
  ROPELAB_ASSIGN_OR_RETURN(const experiments::ResolvedSubmission resolved,
                           Resolve(context, request.submission(), problems, warnings, catalogue));
  for (v1::FieldProblem& problem : problems) {
    *response.add_problems() = std::move(problem);
  }
  if (response.problems().empty()) {
    for (const experiments::ResolvedExperiment& experiment : resolved.experiments) {
      *response.add_estimates() = experiment.estimate;
    }
  }
  return absl::OkStatus();
}

absl::Status Submit(const ServiceContext& context, const v1::SubmitRequest& request,
                    v1::SubmitResponse& response) {
  ROPELAB_RETURN_IF_ERROR(CheckNames(request));
  std::vector<v1::FieldProblem> problems;
  std::vector<std::string> warnings;
  StoredCatalogue catalogue;
  ROPELAB_ASSIGN_OR_RETURN(const experiments::ResolvedSubmission resolved,
                           Resolve(context, request.submission(), problems, warnings, catalogue));
  if (!problems.empty()) {
    return ProblemsStatus(problems);
  }
  const std::string owner = request.user().empty() ? kAnonymous : request.user();
  const int64_t now_us = context.clock->WallMicroseconds();
  std::vector<store::ExperimentRow> rows;
  for (const experiments::ResolvedExperiment& experiment : resolved.experiments) {
    rows.push_back(NewRow(experiment, owner, catalogue, now_us));
  }

  store::SubmittedIds ids;
  ROPELAB_RETURN_IF_ERROR(context.store->WriteAndWait([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(
        ids, store::InsertSubmission(db, owner, request.request_id(), resolved.submission_hash,
                                     resolved.is_study, resolved.study_name, rows));
    if (ids.already_submitted) {
      return absl::OkStatus();
    }
    for (int64_t id : ids.experiment_ids) {
      ROPELAB_RETURN_IF_ERROR(store::RecordAudit(db, owner, "submit", ExperimentId(id), now_us));
    }
    return absl::OkStatus();
  }));

  if (ids.study_id != 0) {
    response.set_study_id(StudyId(ids.study_id));
  }
  response.set_already_submitted(ids.already_submitted);
  for (std::string& warning : warnings) {
    response.add_warnings(std::move(warning));
  }
  for (size_t i = 0; i < ids.experiment_ids.size(); ++i) {
    response.add_experiment_ids(ExperimentId(ids.experiment_ids[i]));
    if (!ids.already_submitted) {
      spdlog::info("experiment {} submitted by {}: {}", ExperimentId(ids.experiment_ids[i]), owner,
                   resolved.experiments[i].kind);
      context.metrics->Submitted(resolved.experiments[i].kind);
      context.coordinator->ExperimentSubmitted(ids.experiment_ids[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace ropelab::api
