// Stages and the links from their plan to tasks: inserting, pinning, detaching (experiments.h).
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/bodies.h"
#include "server/store/experiments.h"

namespace ropelab::store {
namespace {

absl::StatusOr<int64_t> OneInteger(Connection& db, std::string_view sql, std::initializer_list<Value> values,
                                   int64_t otherwise) {
  int64_t found = otherwise;
  ROPELAB_RETURN_IF_ERROR(db.Query(sql, values, [&](const Row& row) {
    found = row.Integer(0);
    return absl::OkStatus();
  }));
  return found;
}

// The shared task of (key, class, salt), 0 if there is none.
absl::StatusOr<int64_t> FindTask(Connection& db, std::string_view key, std::string_view numerics_class,
                                 int64_t salt) {
  return OneInteger(db, "SELECT id FROM tasks WHERE key = ? AND numerics_class = ? AND salt = ?",
                    {key, numerics_class, salt}, 0);
}

// A task that failed for others, or that nobody wanted, starts afresh for a new experiment. Its readings
// stay.
absl::Status Revive(Connection& db, int64_t task, int64_t experiment) {
  return db
      .Execute(
          "UPDATE tasks SET state = 'pending', charged_attempts = 0, cause = '', measured_for = ? "
          "WHERE id = ? AND state IN ('failed', 'poisoned', 'unwanted')",
          {experiment, task})
      .status();
}

absl::StatusOr<int64_t> InsertTask(Connection& db, ArtifactFiles& files, int64_t experiment,
                                   const NewTask& task, const std::string& numerics_class, int64_t salt) {
  ROPELAB_ASSIGN_OR_RETURN(const int64_t known,
                           OneInteger(db, "SELECT 1 FROM measurements WHERE key = ?", {task.key}, 0));
  if (known == 0) {
    ROPELAB_ASSIGN_OR_RETURN(const StoredBody stored, StoredBody::Of(files, task.measurement));
    ROPELAB_RETURN_IF_ERROR(db.Execute("INSERT INTO measurements(key, body, file) VALUES(?, ?, ?)",
                                       {task.key, stored.body(), stored.file()})
                                .status());
  }
  const Value class_value = numerics_class.empty() ? Value(nullptr) : Value(std::string_view(numerics_class));
  ROPELAB_RETURN_IF_ERROR(
      db.Execute("INSERT INTO tasks(key, numerics_class, salt, kind, model, weights_hash, tokenizer_hash, "
                 "config_hash, measured_for) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                 {task.key, class_value, salt, task.kind, task.model, task.weights_hash, task.tokenizer_hash,
                  task.config_hash, experiment})
          .status());
  return db.LastInsertId();
}

}  // namespace

absl::Status BeginStage(Connection& db, int64_t experiment, int64_t stage, const std::string& inputs_digest) {
  return db
      .Execute(
          "INSERT INTO stages(experiment, stage, state, inputs_digest) VALUES(?, ?, 'planning', ?) "
          "ON CONFLICT(experiment, stage) DO NOTHING",
          {experiment, stage, inputs_digest})
      .status();
}

absl::Status InsertStageTasks(Connection& db, ArtifactFiles& files, int64_t experiment, int64_t stage,
                              int64_t first_index, const std::vector<NewTask>& tasks,
                              const std::string& numerics_class, bool bypass_reuse) {
  const int64_t salt = bypass_reuse ? experiment : 0;
  int64_t index = first_index;
  for (const NewTask& task : tasks) {
    const int64_t here = index++;
    ROPELAB_ASSIGN_OR_RETURN(
        const int64_t linked,
        OneInteger(db, "SELECT task FROM stage_tasks WHERE experiment = ? AND stage = ? AND idx = ?",
                   {experiment, stage, here}, 0));
    if (linked != 0) continue;
    int64_t id = 0;
    if (!numerics_class.empty()) {
      ROPELAB_ASSIGN_OR_RETURN(id, FindTask(db, task.key, numerics_class, salt));
      if (id != 0) ROPELAB_RETURN_IF_ERROR(Revive(db, id, experiment));
    }
    if (id == 0) {
      ROPELAB_ASSIGN_OR_RETURN(id, InsertTask(db, files, experiment, task, numerics_class, salt));
    }
    ROPELAB_RETURN_IF_ERROR(
        db.Execute("INSERT INTO stage_tasks(experiment, stage, idx, task) VALUES(?, ?, ?, ?)",
                   {experiment, stage, here, id})
            .status());
  }
  return absl::OkStatus();
}

absl::Status FinishPlanning(Connection& db, int64_t experiment, int64_t stage, const std::string& plan_digest,
                            int64_t tasks) {
  ROPELAB_ASSIGN_OR_RETURN(
      const int64_t linked,
      OneInteger(db, "SELECT COUNT(*) FROM stage_tasks WHERE experiment = ? AND stage = ?",
                 {experiment, stage}, 0));
  if (linked != tasks) {
    return absl::InternalError(absl::StrCat("stage ", stage, " of e", experiment, " was planned with ", tasks,
                                            " tasks but ", linked, " are stored"));
  }
  // Planning a stage again finds it as it left it.
  return db
      .Execute(
          "UPDATE stages SET state = 'running', plan_digest = ?, tasks = ? "
          "WHERE experiment = ? AND stage = ? AND state = 'planning'",
          {plan_digest, tasks, experiment, stage})
      .status();
}

absl::Status CompleteStage(Connection& db, int64_t experiment, int64_t stage) {
  return db
      .Execute(
          "UPDATE stages SET state = 'complete' WHERE experiment = ? AND stage = ? AND state = 'running'",
          {experiment, stage})
      .status();
}

absl::StatusOr<std::vector<StageRow>> StagesOf(Connection& db, int64_t experiment) {
  std::vector<StageRow> stages;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT stage, state, inputs_digest, plan_digest, tasks, (SELECT COUNT(*) FROM stage_tasks s "
               "JOIN tasks t "
               "ON t.id = s.task WHERE s.experiment = stages.experiment AND s.stage = stages.stage AND "
               "t.state = 'finished') "
               "FROM stages WHERE experiment = ? ORDER BY stage",
               {experiment}, [&](const Row& row) {
                 stages.push_back(
                     {row.Integer(0), row.Text(1), row.Text(2), row.Text(3), row.Integer(4), row.Integer(5)});
                 return absl::OkStatus();
               }));
  return stages;
}

absl::StatusOr<int64_t> PinExperiment(Connection& db, int64_t experiment, const std::string& numerics_class) {
  if (numerics_class.empty())
    return absl::InvalidArgumentError("an experiment is pinned to a class, not to none");
  ROPELAB_ASSIGN_OR_RETURN(const ExperimentRow row, GetExperiment(db, experiment));
  if (!row.numerics_class.empty() && row.numerics_class != numerics_class) {
    return absl::FailedPreconditionError(absl::StrCat("e", experiment, " is pinned to numerics class ",
                                                      row.numerics_class, ", not to ", numerics_class));
  }
  ROPELAB_RETURN_IF_ERROR(
      db.Execute("UPDATE experiments SET numerics_class = ? WHERE id = ?", {numerics_class, experiment})
          .status());

  struct Unpinned {
    int64_t id, salt;
    std::string key;
  };
  std::vector<Unpinned> unpinned;  // each belongs to this experiment alone, at one index
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT t.id, t.salt, t.key FROM stage_tasks s JOIN tasks t ON t.id = s.task "
               "WHERE s.experiment = ? AND t.numerics_class IS NULL ORDER BY s.stage, s.idx",
               {experiment}, [&](const Row& found) {
                 unpinned.push_back({found.Integer(0), found.Integer(1), found.Text(2)});
                 return absl::OkStatus();
               }));
  int64_t merged = 0;
  for (const Unpinned& task : unpinned) {
    ROPELAB_ASSIGN_OR_RETURN(const int64_t shared, FindTask(db, task.key, numerics_class, task.salt));
    if (shared == 0) {
      ROPELAB_RETURN_IF_ERROR(
          db.Execute("UPDATE tasks SET numerics_class = ? WHERE id = ?", {numerics_class, task.id}).status());
      continue;
    }
    ROPELAB_RETURN_IF_ERROR(
        db.Execute("UPDATE stage_tasks SET task = ? WHERE task = ?", {shared, task.id}).status());
    ROPELAB_RETURN_IF_ERROR(db.Execute("DELETE FROM tasks WHERE id = ?", {task.id}).status());
    ROPELAB_RETURN_IF_ERROR(Revive(db, shared, experiment));
    ++merged;
  }
  return merged;
}

absl::Status DetachExperiment(Connection& db, int64_t experiment) {
  return db
      .Execute(
          "UPDATE tasks SET state = 'unwanted' WHERE state = 'pending' "
          "AND id IN (SELECT task FROM stage_tasks WHERE experiment = ?1) AND NOT EXISTS("
          "SELECT 1 FROM stage_tasks s JOIN experiments e ON e.id = s.experiment "
          "WHERE s.task = tasks.id AND e.id <> ?1 AND e.state NOT IN ('done', 'failed', 'cancelled'))",
          {experiment})
      .status();
}

}  // namespace ropelab::store
