// How attempts begin, move to a new session and end without a result (tasks.h).
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/tasks.h"

namespace ropelab::store {

absl::StatusOr<int64_t> NextSessionEpoch(Connection& db) {
  int64_t epoch = 0;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("UPDATE meta SET value = value + 1 WHERE name = 'session_epoch' RETURNING value", {},
               [&](const Row& row) {
                 epoch = row.Integer(0);
                 return absl::OkStatus();
               }));
  if (epoch == 0) return absl::DataLossError("the database has no session epoch: restore a backup");
  return epoch;
}

absl::StatusOr<GrantedLease> OpenAttempt(Connection& db, const GrantFacts& facts) {
  std::optional<GrantedLease> lease;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("UPDATE tasks SET state = 'leased', attempt = attempt + 1, session_epoch = ?, cause = '' "
               "WHERE id = ? AND state = 'pending' AND numerics_class = ? RETURNING attempt, readings",
               {facts.session_epoch, facts.task, facts.numerics_class}, [&](const Row& row) {
                 lease = GrantedLease{{facts.task, row.Integer(0), facts.session_epoch}, row.Integer(1)};
                 return absl::OkStatus();
               }));
  if (!lease) {
    ROPELAB_ASSIGN_OR_RETURN(const TaskRow task, GetTask(db, facts.task));
    return absl::FailedPreconditionError(absl::StrCat(
        "task ", facts.task, " cannot be granted to ", facts.worker, " of numerics class ",
        facts.numerics_class, ": it is ", task.state,
        task.numerics_class.empty() ? " and not pinned" : " and pinned to ", task.numerics_class));
  }
  ROPELAB_RETURN_IF_ERROR(
      db.Execute("INSERT INTO attempts(task, attempt, session_epoch, worker, incarnation, build, device, "
                 "numerics_class, "
                 "started_us) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                 {facts.task, lease->token.attempt, facts.session_epoch, facts.worker, facts.incarnation,
                  facts.build, facts.device, facts.numerics_class, facts.now_us})
          .status());
  return *lease;
}

absl::StatusOr<GrantedLease> AdoptAttempt(Connection& db, const Token& old_token, int64_t new_epoch) {
  std::optional<GrantedLease> lease;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("UPDATE tasks SET session_epoch = ?1 WHERE id = ?2 AND state = 'leased' AND attempt = ?3 AND "
               "session_epoch >= ?4 "
               "AND session_epoch < ?1 RETURNING readings",
               {new_epoch, old_token.task, old_token.attempt, old_token.session_epoch}, [&](const Row& row) {
                 lease = GrantedLease{{old_token.task, old_token.attempt, new_epoch}, row.Integer(0)};
                 return absl::OkStatus();
               }));
  if (!lease) {
    return absl::FailedPreconditionError(
        absl::StrCat("attempt ", old_token.attempt, " of task ", old_token.task, " under session ",
                     old_token.session_epoch, " is not open any more: drop its work"));
  }
  ROPELAB_RETURN_IF_ERROR(db.Execute("UPDATE attempts SET session_epoch = ? WHERE task = ? AND attempt = ?",
                                     {new_epoch, old_token.task, old_token.attempt})
                              .status());
  return *lease;
}

absl::StatusOr<bool> EndAttempt(Connection& db, const Token& token, const AttemptEnd& end) {
  if (end.next_state != "pending" && end.next_state != "failed" && end.next_state != "poisoned") {
    return absl::InvalidArgumentError(
        absl::StrCat("an attempt ends in pending, failed or poisoned, not in \"", end.next_state, "\""));
  }
  std::string next_state = end.next_state;
  if (next_state == "pending") {
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<int64_t> wanting, ExperimentsWanting(db, token.task));
    if (wanting.empty()) next_state = "unwanted";
  }
  const int64_t charged = end.charged ? 1 : 0;
  ROPELAB_ASSIGN_OR_RETURN(
      const int64_t changed,
      db.Execute("UPDATE tasks SET state = ?, charged_attempts = charged_attempts + ?, cause = ? "
                 "WHERE id = ? AND state = 'leased' AND attempt = ? AND session_epoch = ?",
                 {next_state, charged, end.cause, token.task, token.attempt, token.session_epoch}));
  if (changed == 0) return false;
  ROPELAB_RETURN_IF_ERROR(
      db.Execute("UPDATE attempts SET outcome = ?, cause = ?, log_tail = ?, charged = ?, ended_us = ? "
                 "WHERE task = ? AND attempt = ?",
                 {end.outcome, end.cause, end.log_tail, charged, end.now_us, token.task, token.attempt})
          .status());
  return true;
}

absl::StatusOr<bool> AttemptCommittedAny(Connection& db, const Token& token) {
  // Attempts follow one another, so it is enough to ask who committed the last reading.
  bool any = false;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT attempt FROM readings WHERE task = ? ORDER BY sequence DESC LIMIT 1", {token.task},
               [&](const Row& row) {
                 any = row.Integer(0) == token.attempt;
                 return absl::OkStatus();
               }));
  return any;
}

absl::StatusOr<std::vector<OpenAttemptRow>> OpenAttempts(Connection& db) {
  std::vector<OpenAttemptRow> open;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT task, attempt, session_epoch, worker, incarnation FROM attempts WHERE outcome = "
               "'running' ORDER BY task",
               {}, [&](const Row& row) {
                 open.push_back({{row.Integer(0), row.Integer(1), row.Integer(2)}, row.Text(3), row.Text(4)});
                 return absl::OkStatus();
               }));
  return open;
}

absl::StatusOr<std::vector<AttemptRow>> AttemptsOf(Connection& db, int64_t task) {
  std::vector<AttemptRow> attempts;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT attempt, worker, incarnation, build, device, numerics_class, outcome, cause, "
               "log_tail, started_us, "
               "ended_us, device_ms FROM attempts WHERE task = ? ORDER BY attempt",
               {task}, [&](const Row& row) {
                 AttemptRow attempt;
                 attempt.attempt = row.Integer(0);
                 attempt.worker = row.Text(1);
                 attempt.incarnation = row.Text(2);
                 attempt.build = row.Text(3);
                 attempt.device = row.Text(4);
                 attempt.numerics_class = row.Text(5);
                 attempt.outcome = row.Text(6);
                 attempt.cause = row.Text(7);
                 attempt.log_tail = row.Text(8);
                 attempt.started_us = row.Integer(9);
                 attempt.ended_us = row.Integer(10);
                 attempt.device_ms = row.Integer(11);
                 attempts.push_back(std::move(attempt));
                 return absl::OkStatus();
               }));
  return attempts;
}

}  // namespace ropelab::store
