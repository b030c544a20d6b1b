// Rows of tasks, attempts and readings: everything that a lease token guards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/artifact_files.h"
#include "server/store/connection.h"

namespace ropelab::store {

struct Token {
  int64_t task = 0, attempt = 0, session_epoch = 0;
};

// States: pending, leased, finished, failed, poisoned, unwanted. A leased task has exactly one open attempt.
struct TaskRow {
  int64_t id = 0;
  std::string key, numerics_class, kind, state, model;
  std::string weights_hash, tokenizer_hash, config_hash;  // as in NewTask
  int64_t stage = 0, index = 0;                           // within the experiment that was asked for
  int64_t attempt = 0;                                    // of the last attempt, 0: none
  int64_t charged_attempts = 0;                           // that count against --max-attempts
  int64_t readings = 0;                                   // highest sequence committed
  std::string digest, fed_ids_digest, cause;
  int64_t measured_for = 0;  // experiment of the first link
};
// In plan order.
absl::StatusOr<std::vector<TaskRow>> TasksOf(Connection& db, int64_t experiment, int64_t stage);
absl::StatusOr<TaskRow> GetTask(Connection& db, int64_t task);
absl::StatusOr<std::string> MeasurementOf(Connection& db, const ArtifactFiles& files,
                                          int64_t task);  // serialized
// The same where the row holds it; "" where it lies in a file, being too long.
absl::StatusOr<std::string> ShortMeasurementOf(Connection& db, int64_t task);
// Tasks of the experiment that may be granted: each once, in plan order.
absl::StatusOr<std::vector<int64_t>> PendingTasks(Connection& db, int64_t experiment);
// Unfinished experiments that want this task.
absl::StatusOr<std::vector<int64_t>> ExperimentsWanting(Connection& db, int64_t task);

// A new number, never given before: each worker session gets one.
absl::StatusOr<int64_t> NextSessionEpoch(Connection& db);

struct GrantFacts {
  int64_t task = 0, session_epoch = 0;
  std::string worker, incarnation, build, device, numerics_class;
  int64_t now_us = 0;
};
struct GrantedLease {
  Token token;
  int64_t resume_after = 0;
};
// Opens the next attempt of a pending task. FAILED_PRECONDITION if it is not pending, not pinned, or pinned
// to another class than the worker's.
absl::StatusOr<GrantedLease> OpenAttempt(Connection& db, const GrantFacts& facts);
// A held lease goes on under a new session: the open attempt takes the new epoch. The old token may be of any
// earlier session of this attempt (the answer that carried a newer one may have been lost).
// FAILED_PRECONDITION: revoke.
absl::StatusOr<GrantedLease> AdoptAttempt(Connection& db, const Token& old_token, int64_t new_epoch);

enum class Committed { kStored, kDuplicate, kDivergent, kFenced, kOutOfOrder };
// One reading. kFenced: the token's attempt is not the open one, nothing was written. kDuplicate: same
// sequence, same digest. kDivergent: same sequence, another digest; kept aside in `divergences`, the first
// stays. kOutOfOrder: sequence is not one past the last; nothing was written. A reading that comes late to a
// finished task is kDuplicate whatever its token, kDivergent if an attempt of this task ever took it, else
// kFenced. INVALID_ARGUMENT: sha256 is not the body's. A body over 64 KiB becomes a file; whoever puts it
// into `files` before, off the writer thread, spares that thread two syncs.
absl::StatusOr<Committed> CommitReading(Connection& db, ArtifactFiles& files, const Token& token,
                                        int64_t sequence, const std::string& sha256, const std::string& body,
                                        int64_t now_us);
// `sequence` is one past the last reading, `digest` SHA-256 over the stored readings' digests (hex, in
// order). kDuplicate: the task is finished with this very digest. kDivergent: fewer readings than are stored,
// or another digest; the digest is kept in `divergences` and the task stays as it is. kOutOfOrder: readings
// are still missing.
absl::StatusOr<Committed> CommitCompletion(Connection& db, const Token& token, int64_t sequence,
                                           const std::string& digest, const std::string& fed_ids_digest,
                                           int64_t device_ms, int64_t now_us);
// How an attempt ends without a result. `next_state`: pending, failed or poisoned; pending becomes unwanted
// where no unfinished experiment wants the task. Returns false when fenced.
struct AttemptEnd {
  std::string outcome;  // lost, failed, handed back, cancelled
  std::string cause = "", log_tail = "";
  bool charged = false;
  std::string next_state = "pending";
  int64_t now_us = 0;
};
absl::StatusOr<bool> EndAttempt(Connection& db, const Token& token, const AttemptEnd& end);
// Whether the attempt got any reading committed: one that did is not charged when its worker is lost.
absl::StatusOr<bool> AttemptCommittedAny(Connection& db, const Token& token);
struct OpenAttemptRow {
  Token token;
  std::string worker, incarnation;
};
absl::StatusOr<std::vector<OpenAttemptRow>> OpenAttempts(Connection& db);

struct AttemptRow {
  int64_t attempt = 0;
  std::string worker, incarnation, build, device, numerics_class, outcome, cause, log_tail;
  int64_t started_us = 0, ended_us = 0, device_ms = 0;
};
absl::StatusOr<std::vector<AttemptRow>> AttemptsOf(Connection& db, int64_t task);

// Bodies of a task's readings, in sequence.
absl::Status ForEachReading(Connection& db, const ArtifactFiles& files, int64_t task,
                            absl::FunctionRef<absl::Status(int64_t sequence, const std::string& body)> visit);
absl::StatusOr<int64_t> DivergencesOf(Connection& db, int64_t experiment);

}  // namespace ropelab::store
