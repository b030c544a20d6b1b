#include "server/store/connection.h"

#include <utility>

#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/errors.h"

namespace ropelab::store {
namespace {

// Before the first table: page size and auto_vacuum cannot change cheaply later. On a database that exists
// they do nothing.
constexpr char kWriterPragmas[] =
    "PRAGMA page_size = 8192;"
    "PRAGMA auto_vacuum = INCREMENTAL;"
    "PRAGMA busy_timeout = 5000;"
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = FULL;"
    "PRAGMA foreign_keys = ON;"
    "PRAGMA cell_size_check = ON;"
    "PRAGMA temp_store = MEMORY;"
    "PRAGMA journal_size_limit = 67108864;";
constexpr char kReaderPragmas[] =
    "PRAGMA busy_timeout = 5000;"
    "PRAGMA query_only = ON;"
    "PRAGMA cell_size_check = ON;"
    "PRAGMA temp_store = MEMORY;";

absl::Status ErrorOf(sqlite3* database, int code, std::string_view sql) {
  constexpr size_t kShown = 80;
  const std::string words(sql.substr(0, kShown));
  return SqliteError(code, absl::StrCat("\"", words, sql.size() > kShown ? "...\": " : "\": ",
                                        sqlite3_errmsg(database), " (SQLite ", code, ")"));
}

int BindOne(sqlite3_stmt* statement, int index, const Value& value) {
  // The caller's bytes outlive the step, so nothing is copied. An empty view may have no address; that would
  // bind NULL.
  if (const auto* integer = std::get_if<int64_t>(&value))
    return sqlite3_bind_int64(statement, index, *integer);
  if (const auto* real = std::get_if<double>(&value)) return sqlite3_bind_double(statement, index, *real);
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    return sqlite3_bind_text64(statement, index, text->empty() ? "" : text->data(), text->size(),
                               SQLITE_STATIC, SQLITE_UTF8);
  }
  if (const auto* blob = std::get_if<Blob>(&value)) {
    if (blob->bytes.empty()) return sqlite3_bind_zeroblob(statement, index, 0);
    return sqlite3_bind_blob64(statement, index, blob->bytes.data(), blob->bytes.size(), SQLITE_STATIC);
  }
  return sqlite3_bind_null(statement, index);
}

}  // namespace

// A statement in use. One of the cache is reset when the use ends; a second use of the same text at the same
// time (a query inside a query) gets a statement of its own, which ends with it.
class StatementUse {
 public:
  StatementUse(sqlite3_stmt* statement, bool cached) : statement_(statement), cached_(cached) {}
  StatementUse(const StatementUse&) = delete;
  StatementUse& operator=(const StatementUse&) = delete;
  ~StatementUse() {
    if (cached_) {
      sqlite3_reset(statement_);
      sqlite3_clear_bindings(statement_);
    } else {
      sqlite3_finalize(statement_);
    }
  }
  sqlite3_stmt* get() const { return statement_; }

 private:
  sqlite3_stmt* statement_;
  bool cached_;
};

bool Row::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
int64_t Row::Integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}
double Row::Real(int column) const {
  return sqlite3_column_double(statement_, column);
}
std::string Row::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text == nullptr ? std::string() : std::string(text, sqlite3_column_bytes(statement_, column));
}
std::string Row::Bytes(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return bytes == nullptr ? std::string() : std::string(bytes, sqlite3_column_bytes(statement_, column));
}

absl::StatusOr<Connection> Connection::Open(const std::string& path, Mode mode) {
  Connection connection;
  const int flags =
      SQLITE_OPEN_NOMUTEX |
      (mode == Mode::kReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY);
  const int code = sqlite3_open_v2(path.c_str(), &connection.database_, flags, nullptr);
  if (code != SQLITE_OK) {
    return SqliteError(code, absl::StrCat("opening the database ", path, ": ",
                                          connection.database_ ? sqlite3_errmsg(connection.database_)
                                                               : sqlite3_errstr(code)));
  }
  sqlite3_extended_result_codes(connection.database_, 1);
  const absl::Status set = connection.Script(mode == Mode::kReadWrite ? kWriterPragmas : kReaderPragmas);
  if (!set.ok()) {
    return absl::Status(set.code(),
                        absl::StrCat("opening the database ", path, ": ", std::string(set.message())));
  }
  return connection;
}

Connection::Connection(Connection&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)), statements_(std::move(other.statements_)) {
  other.statements_.clear();
}

Connection& Connection::operator=(Connection&& other) noexcept {
  std::swap(database_, other.database_);
  std::swap(statements_, other.statements_);
  return *this;
}

Connection::~Connection() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  if (database_ != nullptr) sqlite3_close_v2(database_);
}

absl::StatusOr<sqlite3_stmt*> Connection::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(database_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return ErrorOf(database_, code, sql);
  if (statement == nullptr) return absl::InternalError("an empty SQL statement");
  return statement;
}

absl::StatusOr<std::unique_ptr<StatementUse>> Connection::Use(std::string_view sql, const Value* values,
                                                              size_t count) {
  std::unique_ptr<StatementUse> use;
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    ROPELAB_ASSIGN_OR_RETURN(sqlite3_stmt * statement, Prepare(sql));
    found = statements_.emplace(std::string(sql), statement).first;
  }
  if (sqlite3_stmt_busy(found->second)) {
    ROPELAB_ASSIGN_OR_RETURN(sqlite3_stmt * statement, Prepare(sql));
    use = std::make_unique<StatementUse>(statement, false);
  } else {
    use = std::make_unique<StatementUse>(found->second, true);
  }
  for (size_t i = 0; i < count; ++i) {
    const int code = BindOne(use->get(), static_cast<int>(i) + 1, values[i]);
    if (code != SQLITE_OK) return ErrorOf(database_, code, sql);
  }
  return use;
}

absl::StatusOr<int64_t> Connection::Run(std::string_view sql, const Value* values, size_t count) {
  ROPELAB_ASSIGN_OR_RETURN(const std::unique_ptr<StatementUse> use, Use(sql, values, count));
  const int code = sqlite3_step(use->get());
  if (code == SQLITE_ROW) {
    return absl::InternalError(absl::StrCat("\"", std::string(sql), "\" returns rows: use Query"));
  }
  if (code != SQLITE_DONE) return ErrorOf(database_, code, sql);
  return sqlite3_changes64(database_);
}

absl::StatusOr<int64_t> Connection::Execute(std::string_view sql, std::initializer_list<Value> values) {
  return Run(sql, values.begin(), values.size());
}

absl::StatusOr<int64_t> Connection::Execute(std::string_view sql, const std::vector<Value>& values) {
  return Run(sql, values.data(), values.size());
}

absl::Status Connection::Query(std::string_view sql, std::initializer_list<Value> values,
                               absl::FunctionRef<absl::Status(const Row&)> visit) {
  ROPELAB_ASSIGN_OR_RETURN(const std::unique_ptr<StatementUse> use, Use(sql, values.begin(), values.size()));
  const Row row(use->get());
  for (;;) {
    const int code = sqlite3_step(use->get());
    if (code == SQLITE_DONE) return absl::OkStatus();
    if (code != SQLITE_ROW) return ErrorOf(database_, code, sql);
    ROPELAB_RETURN_IF_ERROR(visit(row));
  }
}

absl::Status Connection::Script(const std::string& sql) {
  const int code = sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return ErrorOf(database_, code, sql);
  return absl::OkStatus();
}

int64_t Connection::LastInsertId() const {
  return sqlite3_last_insert_rowid(database_);
}

}  // namespace ropelab::store
