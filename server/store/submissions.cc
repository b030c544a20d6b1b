// Submitting once, however often it is asked (experiments.h).
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/experiments.h"

namespace ropelab::store {
namespace {

absl::StatusOr<std::optional<SubmittedIds>> FirstAnswer(Connection& db, const std::string& owner,
                                                        const std::string& request_id,
                                                        const std::string& submission_hash) {
  std::optional<SubmittedIds> answer;
  std::string hash;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT submission_hash, study, first_experiment, experiments FROM requests "
               "WHERE owner = ? AND request_id = ?",
               {owner, request_id}, [&](const Row& row) {
                 hash = row.Text(0);
                 answer.emplace();
                 answer->already_submitted = true;
                 answer->study_id = row.Integer(1);
                 for (int64_t i = 0; i < row.Integer(3); ++i)
                   answer->experiment_ids.push_back(row.Integer(2) + i);
                 return absl::OkStatus();
               }));
  if (answer && hash != submission_hash) {
    return absl::AlreadyExistsError(
        absl::StrCat("request id ", request_id, " of ", owner, " was used for another submission (e",
                     answer->experiment_ids.front(), "): choose a new request id"));
  }
  return answer;
}

absl::StatusOr<int64_t> InsertExperiment(Connection& db, const std::string& owner, int64_t study,
                                         const ExperimentRow& row) {
  const int64_t verified = row.owner_verified ? 1 : 0;
  const Value study_value = study == 0 ? Value(nullptr) : Value(study);
  const Value numerics_class =
      row.numerics_class.empty() ? Value(nullptr) : Value(std::string_view(row.numerics_class));
  ROPELAB_RETURN_IF_ERROR(
      db.Execute("INSERT INTO experiments(study, owner, owner_verified, name, kind, state, reason, priority, "
                 "spec_hash, "
                 "numerics_class, submitted_us, models, tags, warnings, spec, typed_spec) "
                 "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                 {study_value, owner, verified, row.name, row.kind, row.state, row.reason, row.priority,
                  row.spec_hash, numerics_class, row.submitted_us, row.models, row.tags, row.warnings,
                  Blob{row.spec}, Blob{row.typed_spec}})
          .status());
  return db.LastInsertId();
}

}  // namespace

absl::StatusOr<SubmittedIds> InsertSubmission(Connection& db, const std::string& owner,
                                              const std::string& request_id,
                                              const std::string& submission_hash, bool is_study,
                                              const std::string& study_name,
                                              const std::vector<ExperimentRow>& experiments) {
  if (request_id.empty()) {
    return absl::InvalidArgumentError(
        "a submission needs a request id of its own, so that sending it again is safe");
  }
  if (experiments.empty()) return absl::InvalidArgumentError("a submission needs at least one experiment");
  ROPELAB_ASSIGN_OR_RETURN(const std::optional<SubmittedIds> first,
                           FirstAnswer(db, owner, request_id, submission_hash));
  if (first) return *first;

  SubmittedIds ids;
  if (is_study) {
    ROPELAB_RETURN_IF_ERROR(
        db.Execute("INSERT INTO studies(owner, name) VALUES(?, ?)", {owner, study_name}).status());
    ids.study_id = db.LastInsertId();
  }
  for (const ExperimentRow& row : experiments) {
    ROPELAB_ASSIGN_OR_RETURN(const int64_t id, InsertExperiment(db, owner, ids.study_id, row));
    if (!ids.experiment_ids.empty() && id != ids.experiment_ids.back() + 1) {
      return absl::InternalError(absl::StrCat("experiment ids of one submission are not consecutive: ",
                                              ids.experiment_ids.back(), " and then ", id));
    }
    ids.experiment_ids.push_back(id);
  }
  const Value study = is_study ? Value(ids.study_id) : Value(nullptr);
  ROPELAB_RETURN_IF_ERROR(
      db.Execute(
            "INSERT INTO requests(owner, request_id, submission_hash, study, first_experiment, experiments) "
            "VALUES(?, ?, ?, ?, ?, ?)",
            {owner, request_id, submission_hash, study, ids.experiment_ids.front(),
             static_cast<int64_t>(ids.experiment_ids.size())})
          .status());
  return ids;
}

}  // namespace ropelab::store
