#include "server/store/head_scores.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
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
      db.Query("SELECT name, sha256, owner, registered_us FROM head_score_sets "
               "ORDER BY name, registered_us DESC, sha256",
               {}, [&](const Row& row) {
                 rows.push_back({row.Text(0), row.Text(1), row.Text(2), row.Integer(3), ""});
                 return absl::OkStatus();
               }));
  return rows;
}

absl::StatusOr<std::string> HeadScoreContent(Connection& db, const std::string& name,
                                             const std::string& sha256) {
  std::optional<std::string> content;
  ROPELAB_RETURN_IF_ERROR(db.Query("SELECT content FROM head_score_sets WHERE name = ? AND sha256 = ?",
                                   {name, sha256}, [&](const Row& row) {
                                     content = row.Bytes(0);
                                     return absl::OkStatus();
                                   }));
  if (content.has_value()) return *std::move(content);
  return absl::NotFoundError(absl::StrCat("head scores ", name, "@", sha256, " are not registered"));
}

}  // namespace ropelab::store
