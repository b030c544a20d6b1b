#include "server/store/experiments.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace ropelab::store {
namespace {

#define ROPELAB_EXPERIMENT_COLUMNS                                                                     \
  "id, study, name, kind, owner, owner_verified, spec_hash, state, reason, priority, numerics_class, " \
  "warnings, tags, "                                                                                   \
  "models, result_digest, submitted_us, started_us, finished_us"
constexpr char kGetOne[] =
    "SELECT " ROPELAB_EXPERIMENT_COLUMNS ", spec, typed_spec FROM experiments WHERE id = ?";
constexpr char kUnfinished[] = "SELECT " ROPELAB_EXPERIMENT_COLUMNS
                               ", spec, typed_spec FROM experiments "
                               "WHERE state NOT IN ('done', 'failed', 'cancelled') ORDER BY id";
// Lines are looked up whole, between line ends; a model also by its name alone.
constexpr char kList[] =
    "SELECT " ROPELAB_EXPERIMENT_COLUMNS
    ", NULL, NULL FROM experiments "
    "WHERE (?1 = '' OR owner = ?1) AND (?2 = '' OR state = ?2) AND (?3 = '' OR kind = ?3) "
    "AND (?4 = '' OR instr(char(10) || models || char(10), char(10) || ?4 || char(10)) > 0 "
    "OR instr(char(10) || models, char(10) || ?4 || '@') > 0) "
    "AND (?5 = '' OR instr(char(10) || tags || char(10), char(10) || ?5 || char(10)) > 0) "
    "ORDER BY id DESC LIMIT ?6";
#undef ROPELAB_EXPERIMENT_COLUMNS

ExperimentRow ExperimentFrom(const Row& row) {
  ExperimentRow experiment;
  experiment.id = row.Integer(0);
  experiment.study_id = row.Integer(1);
  experiment.name = row.Text(2);
  experiment.kind = row.Text(3);
  experiment.owner = row.Text(4);
  experiment.owner_verified = row.Integer(5) != 0;
  experiment.spec_hash = row.Text(6);
  experiment.state = row.Text(7);
  experiment.reason = row.Text(8);
  experiment.priority = row.Text(9);
  experiment.numerics_class = row.Text(10);
  experiment.warnings = row.Text(11);
  experiment.tags = row.Text(12);
  experiment.models = row.Text(13);
  experiment.result_digest = row.Text(14);
  experiment.submitted_us = row.Integer(15);
  experiment.started_us = row.Integer(16);
  experiment.finished_us = row.Integer(17);
  experiment.spec = row.Bytes(18);
  experiment.typed_spec = row.Bytes(19);
  return experiment;
}

absl::Status NoSuchExperiment(int64_t id) {
  return absl::NotFoundError(absl::StrCat("there is no experiment e", id));
}

}  // namespace

absl::StatusOr<ExperimentRow> GetExperiment(Connection& db, int64_t id) {
  std::optional<ExperimentRow> found;
  ROPELAB_RETURN_IF_ERROR(db.Query(kGetOne, {id}, [&](const Row& row) {
    found = ExperimentFrom(row);
    return absl::OkStatus();
  }));
  if (!found) return NoSuchExperiment(id);
  return *found;
}

absl::StatusOr<std::vector<int64_t>> ExperimentsOfStudy(Connection& db, int64_t study_id) {
  std::vector<int64_t> ids;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT id FROM experiments WHERE study = ? ORDER BY id", {study_id}, [&](const Row& row) {
        ids.push_back(row.Integer(0));
        return absl::OkStatus();
      }));
  if (ids.empty()) return absl::NotFoundError(absl::StrCat("there is no study s", study_id));
  return ids;
}

absl::StatusOr<std::vector<ExperimentRow>> ListExperiments(Connection& db, const ExperimentFilter& filter) {
  std::vector<ExperimentRow> experiments;
  ROPELAB_RETURN_IF_ERROR(
      db.Query(kList, {filter.owner, filter.state, filter.kind, filter.model, filter.tag, filter.limit},
               [&](const Row& row) {
                 experiments.push_back(ExperimentFrom(row));
                 return absl::OkStatus();
               }));
  return experiments;
}

absl::StatusOr<std::vector<ExperimentRow>> UnfinishedExperiments(Connection& db) {
  std::vector<ExperimentRow> experiments;
  ROPELAB_RETURN_IF_ERROR(db.Query(kUnfinished, {}, [&](const Row& row) {
    experiments.push_back(ExperimentFrom(row));
    return absl::OkStatus();
  }));
  return experiments;
}

absl::StatusOr<bool> SetExperimentState(Connection& db, int64_t id, const std::string& state,
                                        const std::string& reason, int64_t now_us) {
  ROPELAB_ASSIGN_OR_RETURN(
      const int64_t changed,
      db.Execute("UPDATE experiments SET state = ?1, reason = ?2, "
                 "started_us = CASE WHEN ?1 IN ('running', 'reducing', 'done') AND started_us = 0 THEN ?3 "
                 "ELSE started_us END, "
                 "finished_us = CASE WHEN ?1 IN ('done', 'failed', 'cancelled') THEN ?3 ELSE 0 END "
                 "WHERE id = ?4 AND state NOT IN ('done', 'failed', 'cancelled')",
                 {state, reason, now_us, id}));
  if (changed == 1) return true;
  ROPELAB_RETURN_IF_ERROR(GetExperiment(db, id).status());
  return false;
}

absl::Status SetExperimentModels(Connection& db, int64_t id, const std::string& models) {
  ROPELAB_ASSIGN_OR_RETURN(const int64_t changed,
                           db.Execute("UPDATE experiments SET models = ? WHERE id = ?", {models, id}));
  return changed == 1 ? absl::OkStatus() : NoSuchExperiment(id);
}

}  // namespace ropelab::store
