// What a worker's readings and completions become (tasks.h): stored once, or told why not.
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "server/store/bodies.h"
#include "server/store/tasks.h"

namespace ropelab::store {
namespace {

// The task as it stands, with what the token is to it.
struct Standing {
  bool finished = false;
  bool open = false;  // the token's attempt is the open one
  bool ever_an_attempt = false;
  int64_t readings = 0;
  std::string digest;
};

absl::StatusOr<Standing> StandingOf(Connection& db, const Token& token) {
  Standing standing;
  ROPELAB_RETURN_IF_ERROR(db.Query(
      "SELECT state, attempt, session_epoch, readings, digest, "
      "EXISTS(SELECT 1 FROM attempts a WHERE a.task = tasks.id AND a.attempt = ?2) FROM tasks WHERE id = ?1",
      {token.task, token.attempt}, [&](const Row& row) {
        const std::string state = row.Text(0);
        standing.finished = state == "finished";
        standing.open =
            state == "leased" && row.Integer(1) == token.attempt && row.Integer(2) == token.session_epoch;
        standing.readings = row.Integer(3);
        standing.digest = row.Text(4);
        standing.ever_an_attempt = row.Integer(5) != 0;
        return absl::OkStatus();
      }));
  return standing;
}

absl::Status KeepDivergence(Connection& db, const Token& token, int64_t sequence, const std::string& sha256,
                            Value file, Value body, int64_t now_us) {
  // The same contradiction sent again is one divergence.
  return db
      .Execute(
          "INSERT OR IGNORE INTO divergences(task, sequence, attempt, seen_us, sha256, file, body) "
          "VALUES(?, ?, ?, ?, ?, ?, ?)",
          {token.task, sequence, token.attempt, now_us, sha256, file, body})
      .status();
}

// Why the fenced statement changed nothing.
absl::StatusOr<Committed> WhyNotStored(Connection& db, ArtifactFiles& files, const Token& token,
                                       int64_t sequence, const std::string& sha256, const std::string& body,
                                       int64_t now_us) {
  ROPELAB_ASSIGN_OR_RETURN(const Standing standing, StandingOf(db, token));
  if (!standing.finished && !standing.open) return Committed::kFenced;
  std::optional<std::string> stored;
  ROPELAB_RETURN_IF_ERROR(db.Query("SELECT sha256 FROM readings WHERE task = ? AND sequence = ?",
                                   {token.task, sequence}, [&](const Row& row) {
                                     stored = row.Text(0);
                                     return absl::OkStatus();
                                   }));
  if (stored == sha256) return Committed::kDuplicate;
  if (stored && (standing.open || standing.ever_an_attempt)) {
    ROPELAB_ASSIGN_OR_RETURN(const StoredBody kept, StoredBody::Of(files, body));
    ROPELAB_RETURN_IF_ERROR(KeepDivergence(db, token, sequence, sha256, kept.file(), kept.body(), now_us));
    return Committed::kDivergent;
  }
  return standing.open ? Committed::kOutOfOrder : Committed::kFenced;
}

absl::StatusOr<std::string> DigestOfReadings(Connection& db, int64_t task) {
  Sha256 hash;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT sha256 FROM readings WHERE task = ? ORDER BY sequence", {task}, [&](const Row& row) {
        hash.Update(row.Text(0));
        return absl::OkStatus();
      }));
  return hash.FinishHex();
}

}  // namespace

absl::StatusOr<Committed> CommitReading(Connection& db, ArtifactFiles& files, const Token& token,
                                        int64_t sequence, const std::string& sha256, const std::string& body,
                                        int64_t now_us) {
  if (sequence < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("reading ", sequence, " of task ", token.task, ": readings are numbered from 1"));
  }
  if (const std::string found = Sha256Hex(body); found != sha256) {
    return absl::InvalidArgumentError(
        absl::StrCat("reading ", sequence, " of task ", token.task, " says SHA-256 ", sha256.substr(0, 80),
                     " but its body has ", found, ": it was damaged on the way, send it again"));
  }
  ROPELAB_ASSIGN_OR_RETURN(
      const int64_t changed,
      db.Execute("UPDATE tasks SET readings = ?1 WHERE id = ?2 AND state = 'leased' AND attempt = ?3 "
                 "AND session_epoch = ?4 AND readings = ?1 - 1",
                 {sequence, token.task, token.attempt, token.session_epoch}));
  if (changed == 0) return WhyNotStored(db, files, token, sequence, sha256, body, now_us);
  ROPELAB_ASSIGN_OR_RETURN(const StoredBody kept, StoredBody::Of(files, body));
  ROPELAB_RETURN_IF_ERROR(
      db.Execute("INSERT INTO readings(task, sequence, attempt, committed_us, sha256, file, body) VALUES(?, "
                 "?, ?, ?, ?, ?, ?)",
                 {token.task, sequence, token.attempt, now_us, sha256, kept.file(), kept.body()})
          .status());
  return Committed::kStored;
}

absl::StatusOr<Committed> CommitCompletion(Connection& db, const Token& token, int64_t sequence,
                                           const std::string& digest, const std::string& fed_ids_digest,
                                           int64_t device_ms, int64_t now_us) {
  ROPELAB_ASSIGN_OR_RETURN(const Standing standing, StandingOf(db, token));
  if (standing.finished) {
    if (sequence == standing.readings + 1 && digest == standing.digest) return Committed::kDuplicate;
    if (!standing.ever_an_attempt) return Committed::kFenced;
    ROPELAB_RETURN_IF_ERROR(KeepDivergence(db, token, sequence, digest, nullptr, nullptr, now_us));
    return Committed::kDivergent;
  }
  if (!standing.open) return Committed::kFenced;
  if (sequence > standing.readings + 1) return Committed::kOutOfOrder;
  ROPELAB_ASSIGN_OR_RETURN(const std::string stored, DigestOfReadings(db, token.task));
  if (sequence != standing.readings + 1 || digest != stored) {
    ROPELAB_RETURN_IF_ERROR(KeepDivergence(db, token, sequence, digest, nullptr, nullptr, now_us));
    return Committed::kDivergent;
  }
  ROPELAB_ASSIGN_OR_RETURN(
      const int64_t changed,
      db.Execute("UPDATE tasks SET state = 'finished', digest = ?, fed_ids_digest = ? WHERE id = ? AND state "
                 "= 'leased' "
                 "AND attempt = ? AND session_epoch = ? AND readings = ?",
                 {digest, fed_ids_digest, token.task, token.attempt, token.session_epoch, sequence - 1}));
  if (changed == 0) return Committed::kFenced;
  ROPELAB_RETURN_IF_ERROR(db.Execute("UPDATE attempts SET outcome = 'finished', device_ms = ?, ended_us = ? "
                                     "WHERE task = ? AND attempt = ?",
                                     {device_ms, now_us, token.task, token.attempt})
                              .status());
  return Committed::kStored;
}

}  // namespace ropelab::store
