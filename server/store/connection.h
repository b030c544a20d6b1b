// One SQLite connection with cached prepared statements. Errors carry the statement's first words and
// SQLite's message; SQLITE_FULL is RESOURCE_EXHAUSTED, SQLITE_IOERR is UNAVAILABLE, a broken constraint is
// ALREADY_EXISTS, a damaged file is DATA_LOSS. One thread at a time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ropelab::store {

class StatementUse;

struct Blob {
  std::string_view bytes;
};
// nullopt binds NULL.
using Value = std::variant<std::nullptr_t, int64_t, double, std::string_view, Blob>;

// The columns of the row that a query stands on. Views are valid until the next row.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  bool IsNull(int column) const;
  int64_t Integer(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;
  std::string Bytes(int column) const;

 private:
  sqlite3_stmt* statement_;
};

class Connection {
 public:
  enum class Mode { kReadWrite, kReadOnly };
  static absl::StatusOr<Connection> Open(const std::string& path, Mode mode);
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;
  ~Connection();

  // Runs one statement that returns no rows; gives how many rows it changed.
  absl::StatusOr<int64_t> Execute(std::string_view sql, std::initializer_list<Value> values = {});
  absl::StatusOr<int64_t> Execute(std::string_view sql, const std::vector<Value>& values);
  // Calls `visit` for each row; a status that is not OK ends the query and is returned.
  absl::Status Query(std::string_view sql, std::initializer_list<Value> values,
                     absl::FunctionRef<absl::Status(const Row&)> visit);
  // Several statements separated by semicolons (migrations).
  absl::Status Script(const std::string& sql);
  int64_t LastInsertId() const;
  sqlite3* handle() const { return database_; }

 private:
  Connection() = default;
  absl::StatusOr<sqlite3_stmt*> Prepare(std::string_view sql);
  absl::StatusOr<std::unique_ptr<StatementUse>> Use(std::string_view sql, const Value* values, size_t count);
  absl::StatusOr<int64_t> Run(std::string_view sql, const Value* values, size_t count);
  sqlite3* database_ = nullptr;
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

}  // namespace ropelab::store
