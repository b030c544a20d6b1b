#include "server/store/tasks.h"

#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "server/store/bodies.h"

namespace ropelab::store {
namespace {

constexpr char kTasksOf[] =
    "SELECT t.id, t.key, t.numerics_class, t.kind, t.state, t.model, t.weights_hash, t.attempt, "
    "t.charged_attempts, "
    "t.readings, t.digest, t.fed_ids_digest, t.cause, t.measured_for, s.stage, s.idx, t.tokenizer_hash, "
    "t.config_hash "
    "FROM stage_tasks s JOIN tasks t ON t.id = s.task WHERE s.experiment = ? AND s.stage = ? ORDER BY s.idx";
constexpr char kGetTask[] =
    "SELECT id, key, numerics_class, kind, state, model, weights_hash, attempt, charged_attempts, readings, "
    "digest, "
    "fed_ids_digest, cause, measured_for, 0, 0, tokenizer_hash, config_hash FROM tasks WHERE id = ?";

TaskRow TaskFrom(const Row& row) {
  TaskRow task;
  task.id = row.Integer(0);
  task.key = row.Text(1);
  task.numerics_class = row.Text(2);
  task.kind = row.Text(3);
  task.state = row.Text(4);
  task.model = row.Text(5);
  task.weights_hash = row.Text(6);
  task.attempt = row.Integer(7);
  task.charged_attempts = row.Integer(8);
  task.readings = row.Integer(9);
  task.digest = row.Text(10);
  task.fed_ids_digest = row.Text(11);
  task.cause = row.Text(12);
  task.measured_for = row.Integer(13);
  task.stage = row.Integer(14);
  task.index = row.Integer(15);
  task.tokenizer_hash = row.Text(16);
  task.config_hash = row.Text(17);
  return task;
}

absl::Status NoSuchTask(int64_t task) {
  return absl::NotFoundError(absl::StrCat("there is no task ", task));
}

}  // namespace

absl::StatusOr<std::vector<TaskRow>> TasksOf(Connection& db, int64_t experiment, int64_t stage) {
  std::vector<TaskRow> tasks;
  ROPELAB_RETURN_IF_ERROR(db.Query(kTasksOf, {experiment, stage}, [&](const Row& row) {
    tasks.push_back(TaskFrom(row));
    return absl::OkStatus();
  }));
  return tasks;
}

absl::StatusOr<TaskRow> GetTask(Connection& db, int64_t task) {
  std::optional<TaskRow> found;
  ROPELAB_RETURN_IF_ERROR(db.Query(kGetTask, {task}, [&](const Row& row) {
    found = TaskFrom(row);
    return absl::OkStatus();
  }));
  if (!found) return NoSuchTask(task);
  return *found;
}

absl::StatusOr<std::string> MeasurementOf(Connection& db, const ArtifactFiles& files, int64_t task) {
  std::optional<std::string> measurement;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT m.body, m.file FROM tasks t JOIN measurements m ON m.key = t.key WHERE t.id = ?",
               {task}, [&](const Row& row) -> absl::Status {
                 ROPELAB_ASSIGN_OR_RETURN(measurement, ReadBody(files, row, 0, 1));
                 return absl::OkStatus();
               }));
  if (!measurement) return NoSuchTask(task);
  return *measurement;
}

absl::StatusOr<std::string> ShortMeasurementOf(Connection& db, int64_t task) {
  std::optional<std::string> body;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT m.body FROM tasks t JOIN measurements m ON m.key = t.key WHERE t.id = ?", {task},
               [&](const Row& row) {
                 body = row.Bytes(0);
                 return absl::OkStatus();
               }));
  if (!body) return NoSuchTask(task);
  return *body;
}

absl::StatusOr<std::vector<int64_t>> PendingTasks(Connection& db, int64_t experiment) {
  std::vector<int64_t> tasks;
  std::unordered_set<int64_t> seen;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT s.task FROM stage_tasks s JOIN tasks t ON t.id = s.task WHERE s.experiment = ? AND "
               "t.state = 'pending' "
               "ORDER BY s.stage, s.idx",
               {experiment}, [&](const Row& row) {
                 if (seen.insert(row.Integer(0)).second) tasks.push_back(row.Integer(0));
                 return absl::OkStatus();
               }));
  return tasks;
}

absl::StatusOr<std::vector<int64_t>> ExperimentsWanting(Connection& db, int64_t task) {
  std::vector<int64_t> experiments;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT DISTINCT e.id FROM stage_tasks s JOIN experiments e ON e.id = s.experiment "
               "WHERE s.task = ? AND e.state NOT IN ('done', 'failed', 'cancelled') ORDER BY e.id",
               {task}, [&](const Row& row) {
                 experiments.push_back(row.Integer(0));
                 return absl::OkStatus();
               }));
  return experiments;
}

absl::Status ForEachReading(
    Connection& db, const ArtifactFiles& files, int64_t task,
    absl::FunctionRef<absl::Status(int64_t sequence, const std::string& body)> visit) {
  return db.Query(
      "SELECT sequence, body, file, sha256 FROM readings WHERE task = ? ORDER BY sequence", {task},
      [&](const Row& row) -> absl::Status {
        ROPELAB_ASSIGN_OR_RETURN(const std::string body, ReadBody(files, row, 1, 2));
        // A disk that changed a bit must not change a result.
        if (Sha256Hex(body) != row.Text(3)) {
          return absl::DataLossError(absl::StrCat("reading ", row.Integer(0), " of task ", task,
                                                  " no longer has the SHA-256 with which it was stored: the "
                                                  "database is damaged, restore a backup"));
        }
        return visit(row.Integer(0), body);
      });
}

absl::StatusOr<int64_t> DivergencesOf(Connection& db, int64_t experiment) {
  int64_t divergences = 0;
  ROPELAB_RETURN_IF_ERROR(db.Query(
      "SELECT COUNT(*) FROM divergences WHERE task IN (SELECT task FROM stage_tasks WHERE experiment = ?)",
      {experiment}, [&](const Row& row) {
        divergences = row.Integer(0);
        return absl::OkStatus();
      }));
  return divergences;
}

}  // namespace ropelab::store
