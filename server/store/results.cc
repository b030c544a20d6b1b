#include "server/store/results.h"

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "server/store/result_digest.h"
#include "server/store/slices.h"
#include "server/store/table_file.h"

namespace ropelab::store {
namespace {

std::string TypeName(v1::Column::Type type) {
  return v1::Column::Type_Name(type);
}

// INTERNAL unless the view of this name has exactly these columns, by name and type.
absl::Status CheckColumns(Connection& db, const v1::TableSlice& slice) {
  std::map<std::string, std::string> expected;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT name, type FROM pragma_table_info(?) "
               "WHERE name NOT IN ('experiment', 'ordinal') AND EXISTS(SELECT 1 FROM sqlite_schema WHERE "
               "type = 'view' AND name = ?)",
               {absl::StrCat(slice.table(), "_rows"), slice.table()}, [&](const Row& row) {
                 expected[row.Text(0)] = row.Text(1);
                 return absl::OkStatus();
               }));
  if (expected.empty()) {
    return absl::InternalError(
        absl::StrCat("result table \"", slice.table(), "\" has no view in the database"));
  }
  for (const v1::Column& column : slice.columns()) {
    const auto found = expected.find(column.name());
    if (found == expected.end() || found->second != TypeName(column.type())) {
      return absl::InternalError(absl::StrCat(
          "result table ", slice.table(), ": column ", column.name(), " ", TypeName(column.type()),
          " is not in its view", found == expected.end() ? "" : " as this type, or there twice"));
    }
    expected.erase(found);
  }
  if (!expected.empty()) {
    return absl::InternalError(absl::StrCat("result table ", slice.table(), ": column ",
                                            expected.begin()->first, " ", expected.begin()->second,
                                            " of its view is missing"));
  }
  return absl::OkStatus();
}

Value ValueOf(const Cell& cell) {
  if (cell.null) return nullptr;
  if (cell.type == v1::Column::REAL) return cell.real;
  if (cell.type == v1::Column::TEXT) return cell.text;
  return cell.integer;
}

absl::Status InsertRows(Connection& db, int64_t experiment, const ResultTable& table) {
  const v1::TableSlice& slice = table.slice;
  std::string names, marks;
  for (const v1::Column& column : slice.columns()) {
    absl::StrAppend(&names, ", \"", column.name(), "\"");
    absl::StrAppend(&marks, ", ?");
  }
  const std::string sql = absl::StrCat("INSERT INTO ", slice.table(), "_rows(experiment, ordinal", names,
                                       ") VALUES(?, ?", marks, ")");
  const int64_t count = table.whole_in_sql ? slice.rows() : static_cast<int64_t>(table.sql_rows.size());
  std::vector<Value> values(2 + slice.columns_size());
  values[0] = experiment;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = table.whole_in_sql ? i : table.sql_rows[i];
    if (row < 0 || row >= slice.rows()) {
      return absl::InternalError(
          absl::StrCat("result table ", slice.table(), " has no row ", row, " of ", slice.rows()));
    }
    values[1] = row;
    for (int column = 0; column < slice.columns_size(); ++column) {
      values[2 + column] = ValueOf(CellOf(slice.columns(column), row));
    }
    ROPELAB_RETURN_IF_ERROR(db.Execute(sql, values).status());
  }
  return absl::OkStatus();
}

absl::Status RemoveResults(Connection& db, int64_t experiment) {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<v1::TableInfo> tables, ListTables(db, experiment));
  for (const v1::TableInfo& table : tables) {
    ROPELAB_RETURN_IF_ERROR(
        db.Execute(absl::StrCat("DELETE FROM ", table.name(), "_rows WHERE experiment = ?"), {experiment})
            .status());
  }
  ROPELAB_RETURN_IF_ERROR(
      db.Execute("DELETE FROM result_tables WHERE experiment = ?", {experiment}).status());
  return db.Execute("DELETE FROM artifacts WHERE experiment = ?", {experiment}).status();
}

absl::Status ReadRows(Connection& db, int64_t experiment, const v1::TableSlice& header,
                      SliceWriter::Emit visit) {
  const std::string names = absl::StrJoin(
      header.columns(), ", ",
      [](std::string* out, const v1::Column& column) { absl::StrAppend(out, "\"", column.name(), "\""); });
  SliceWriter writer(header, visit);
  ROPELAB_RETURN_IF_ERROR(db.Query(
      absl::StrCat("SELECT ", names, " FROM ", header.table(), "_rows WHERE experiment = ? ORDER BY ordinal"),
      {experiment}, [&](const Row& row) {
        std::string text;
        for (int column = 0; column < header.columns_size(); ++column) {
          Cell cell;
          cell.type = header.columns(column).type();
          cell.null = row.IsNull(column);
          if (cell.null) {
          } else if (cell.type == v1::Column::REAL) {
            cell.real = row.Real(column);
          } else if (cell.type == v1::Column::TEXT) {
            text = row.Text(column);
            cell.text = text;
          } else {
            cell.integer = row.Integer(column);
          }
          writer.Add(column, cell);
        }
        return writer.EndRow();
      }));
  return writer.Finish();
}

}  // namespace

absl::StatusOr<std::string> InsertResults(Connection& db, ArtifactFiles& files, int64_t experiment,
                                          const std::vector<ResultTable>& tables,
                                          const std::vector<ResultArtifact>& artifacts, bool partial) {
  ROPELAB_RETURN_IF_ERROR(RemoveResults(db, experiment));
  const int64_t partial_value = partial ? 1 : 0;
  for (const ResultTable& table : tables) {
    ROPELAB_RETURN_IF_ERROR(CheckSlice(table.slice));
    ROPELAB_RETURN_IF_ERROR(CheckColumns(db, table.slice));
    ROPELAB_RETURN_IF_ERROR(InsertRows(db, experiment, table));
    std::optional<std::string> file;
    if (!table.whole_in_sql) {
      const std::string upload = absl::StrCat("table ", table.slice.table(), " of e", experiment);
      ROPELAB_ASSIGN_OR_RETURN(file, WriteTableFile(files, upload, table.slice));
    }
    const std::string columns = HeaderOf(table.slice).SerializeAsString();
    ROPELAB_RETURN_IF_ERROR(
        db.Execute("INSERT INTO result_tables(experiment, name, rows, partial, columns, file) VALUES(?, ?, "
                   "?, ?, ?, ?)",
                   {experiment, table.slice.table(), table.slice.rows(), partial_value, Blob{columns},
                    file ? Value(std::string_view(*file)) : Value(nullptr)})
            .status());
  }
  for (const ResultArtifact& artifact : artifacts) {
    ROPELAB_RETURN_IF_ERROR(
        db.Execute("INSERT INTO artifacts(experiment, name, sha256, bytes) VALUES(?, ?, ?, ?)",
                   {experiment, artifact.name, artifact.sha256, artifact.bytes})
            .status());
  }
  std::string digest = ResultDigest(tables, artifacts);
  ROPELAB_RETURN_IF_ERROR(
      db.Execute("UPDATE experiments SET result_digest = ? WHERE id = ?", {digest, experiment}).status());
  return digest;
}

absl::StatusOr<std::vector<v1::TableInfo>> ListTables(Connection& db, int64_t experiment) {
  std::vector<v1::TableInfo> tables;
  ROPELAB_RETURN_IF_ERROR(db.Query(
      "SELECT name, rows, partial, file IS NULL FROM result_tables WHERE experiment = ? ORDER BY name",
      {experiment}, [&](const Row& row) {
        v1::TableInfo& table = tables.emplace_back();
        table.set_name(row.Text(0));
        table.set_rows(row.Integer(1));
        table.set_partial(row.Integer(2) != 0);
        table.set_whole_in_sql(row.Integer(3) != 0);
        return absl::OkStatus();
      }));
  return tables;
}

absl::StatusOr<std::vector<ResultArtifact>> ListArtifacts(Connection& db, int64_t experiment) {
  std::vector<ResultArtifact> artifacts;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT name, sha256, bytes FROM artifacts WHERE experiment = ? ORDER BY name", {experiment},
               [&](const Row& row) {
                 artifacts.push_back({row.Text(0), row.Text(1), row.Integer(2)});
                 return absl::OkStatus();
               }));
  return artifacts;
}

absl::Status ReadTable(Connection& db, const ArtifactFiles& files, int64_t experiment,
                       const std::string& table,
                       absl::FunctionRef<absl::Status(const v1::TableSlice&)> visit) {
  std::optional<v1::TableSlice> header;
  std::string file;
  ROPELAB_RETURN_IF_ERROR(
      db.Query("SELECT columns, file FROM result_tables WHERE experiment = ? AND name = ?",
               {experiment, table}, [&](const Row& row) -> absl::Status {
                 header.emplace();
                 file = row.Text(1);
                 if (header->ParseFromString(row.Bytes(0))) return absl::OkStatus();
                 return absl::DataLossError(absl::StrCat("the columns of table ", table, " of e", experiment,
                                                         " cannot be read: restore a backup"));
               }));
  if (!header) {
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<v1::TableInfo> tables, ListTables(db, experiment));
    const std::string names = absl::StrJoin(
        tables, ", ", [](std::string* out, const v1::TableInfo& info) { absl::StrAppend(out, info.name()); });
    return absl::NotFoundError(absl::StrCat("e", experiment, " has no table \"", table, "\"; ",
                                            tables.empty() ? "it has none yet" : "it has ", names));
  }
  return file.empty() ? ReadRows(db, experiment, *header, visit) : ReadTableFile(files, file, visit);
}

}  // namespace ropelab::store
