#include "server/store/migrations.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace ropelab::store {

absl::Status Migrate(Connection& db, const std::vector<Migration>& migrations) {
  int64_t present = 0;
  ROPELAB_RETURN_IF_ERROR(db.Query("PRAGMA user_version", {}, [&](const Row& row) {
    present = row.Integer(0);
    return absl::OkStatus();
  }));
  const int64_t known = static_cast<int64_t>(migrations.size());
  if (present > known) {
    return absl::FailedPreconditionError(
        absl::StrCat("the database has schema version ", present, ", this build knows ", known,
                     " at most; run the newer ropelab-server that wrote it, or restore a backup"));
  }
  for (int64_t i = present; i < known; ++i) {
    const Migration& migration = migrations[i];
    const absl::Status applied = db.Script(absl::StrCat(
        "BEGIN IMMEDIATE;\n", migration.sql, "\nPRAGMA user_version = ", migration.version, ";\nCOMMIT;"));
    if (!applied.ok()) {
      (void)db.Execute("ROLLBACK");  // fails when SQLite rolled back by itself, which is as good
      return absl::Status(applied.code(),
                          absl::StrCat("migration ", migration.name, ": ", std::string(applied.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace ropelab::store
