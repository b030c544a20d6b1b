// Result tables and artifacts of an experiment. All of an experiment's results become visible in one
// transaction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/results.pb.h"
#include "server/store/artifact_files.h"
#include "server/store/connection.h"

namespace ropelab::store {

// One finished table. `sql_rows` go into the SQL table behind the view of this name, whose columns are
// experiment and then exactly `slice.columns` (a table without such a view is refused: INTERNAL). If
// `sql_rows` is not all of `slice`, the whole table is stored as a file too, and ReadTable reads that.
// Doubles keep their bits, but NaN becomes null and -0 becomes 0.
struct ResultTable {
  v1::TableSlice slice;           // all rows, sorted by the key columns
  std::vector<int64_t> sql_rows;  // indices of rows; ignored when whole_in_sql
  bool whole_in_sql = true;
};
struct ResultArtifact {
  std::string name, sha256;
  int64_t bytes = 0;
};
// Replaces what the experiment had. Returns the digest over all tables (canonical, in name order) and
// artifacts, which becomes the experiment's result_digest too.
absl::StatusOr<std::string> InsertResults(Connection& db, ArtifactFiles& files, int64_t experiment,
                                          const std::vector<ResultTable>& tables,
                                          const std::vector<ResultArtifact>& artifacts, bool partial);
absl::StatusOr<std::vector<v1::TableInfo>> ListTables(Connection& db, int64_t experiment);
absl::StatusOr<std::vector<ResultArtifact>> ListArtifacts(Connection& db, int64_t experiment);
// Slices of at most 1 MiB or so, in row order, the same ones whether from SQL or from a file; a table without
// rows is one slice without rows. NOT_FOUND names the tables that exist.
absl::Status ReadTable(Connection& db, const ArtifactFiles& files, int64_t experiment,
                       const std::string& table,
                       absl::FunctionRef<absl::Status(const v1::TableSlice&)> visit);

}  // namespace ropelab::store
