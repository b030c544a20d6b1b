#include "server/store/head_scores.h"

#include <algorithm>

#include "common/status_macros.h"

namespace ropelab::store {

absl::StatusOr<bool> RegisterHeadScores(Connection& db, const HeadScoreRow& row) {
  bool known = false;
  int64_t registered_us = row.registered_us;
  ROPELAB_RETURN_IF_ERROR(db.Query("SELECT sha256, registered_us FROM head_score_sets WHERE name = ?",
                                   {row.name}, [&](const Row& other) {
                                     known = known || other.Text(0) == row.sha256;
                                     registered_us = std::max(registered_us, other.Integer(1) + 1);
                                     return absl::OkStatus();
                                   }));
  if (known) return true;
  ROPELAB_RETURN_IF_ERROR(
      db.Execute(
            "INSERT INTO head_score_sets(name, sha256, owner, registered_us, content) VALUES(?, ?, ?, ?, ?)",
            {row.name, row.sha256, row.owner, registered_us, Blob{row.content}})
          .status());
  return false;
}

absl::StatusOr<std::vector<HeadScoreRow>> ListHeadScores(Connection& db) {
  std::vector<HeadScoreRow> rows;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT name, sha256, owner, registered_us, content FROM head_score_sets "
               "ORDER BY name, registered_us DESC, sha256",
               {}, [&](const Row& row) {
                 rows.push_back({row.Text(0), row.Text(1), row.Text(2), row.Integer(3), row.Bytes(4)});
                 return absl::OkStatus();
               }));
  return rows;
}

}  // namespace ropelab::store
