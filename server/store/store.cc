#include "server/store/store.h"

#include <sys/stat.h>

#include <future>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/corpora.h"
#include "server/store/data_dir.h"
#include "server/store/file_io.h"
#include "server/store/group_writer.h"
#include "server/store/migrations.h"
#include "server/store/reader_pool.h"

namespace ropelab::store {
namespace {

class SqliteStore : public Store {
 public:
  SqliteStore(const StoreOptions& options, File lock, Connection writer)
      : lock_(std::move(lock)),
        artifacts_(options.data_dir + "/artifacts"),
        corpora_(options.data_dir + "/corpora"),
        readers_(DatabasePath(options.data_dir)),
        writer_(std::move(writer), options.writes_in_flight) {}
  ~SqliteStore() override { Close(); }

  static std::string DatabasePath(const std::string& data_dir) { return data_dir + "/ropelab.db"; }

  void Write(WriteClosure write, Done done) override { writer_.Write(std::move(write), std::move(done)); }

  absl::Status WriteAndWait(WriteClosure write) override {
    if (writer_.OnWriterThread())
      return absl::InternalError("WriteAndWait on the writer thread would wait for itself");
    // Shared, because the waiter may be gone before set_value has returned.
    auto outcome = std::make_shared<std::promise<absl::Status>>();
    std::future<absl::Status> known = outcome->get_future();
    writer_.Write(std::move(write),
                  [outcome](absl::Status status) { outcome->set_value(std::move(status)); });
    return known.get();
  }

  absl::Status Read(absl::FunctionRef<absl::Status(Connection&)> read) override {
    ROPELAB_ASSIGN_OR_RETURN(Connection connection, readers_.Borrow());
    ROPELAB_RETURN_IF_ERROR(connection.Execute("BEGIN").status());
    absl::Status status = read(connection);
    const absl::Status ended = connection.Execute("ROLLBACK").status();
    if (ended.ok()) readers_.GiveBack(std::move(connection));
    return status;
  }

  ArtifactFiles& artifacts() override { return artifacts_; }
  CorpusFiles& corpora() override { return corpora_; }
  bool disk_full() const override { return writer_.disk_full(); }
  void Close() override {
    writer_.Close();
    readers_.Close();
  }

 private:
  const File lock_;  // first: released last
  ArtifactFiles artifacts_;
  CorpusFiles corpora_;
  ReaderPool readers_;
  GroupWriter writer_;
};

absl::Status QuickCheck(Connection& db, const std::string& path) {
  // A killed server must be back at once, and SQLite heals a kill by itself: only what reads in a moment is
  // checked here.
  constexpr int64_t kLargestChecked = 32 << 20;
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0 || facts.st_size > kLargestChecked) return absl::OkStatus();
  std::string wrong;
  ROPELAB_RETURN_IF_ERROR(db.Query("PRAGMA quick_check(1)", {}, [&](const Row& row) {
    wrong = row.Text(0);
    return absl::OkStatus();
  }));
  if (wrong == "ok") return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the database ", path, " is damaged: ", wrong, "; restore a backup"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  ROPELAB_RETURN_IF_ERROR(PrepareDataDir(options.data_dir));
  ROPELAB_ASSIGN_OR_RETURN(File lock, LockDataDir(options.data_dir));
  const std::string path = SqliteStore::DatabasePath(options.data_dir);
  absl::StatusOr<Connection> opened = Connection::Open(path, Connection::Mode::kReadWrite);
  if (absl::IsDataLoss(opened.status())) {
    return absl::DataLossError(absl::StrCat(std::string(opened.status().message()), "; restore a backup"));
  }
  ROPELAB_RETURN_IF_ERROR(opened.status());
  Connection writer = *std::move(opened);
  ROPELAB_RETURN_IF_ERROR(QuickCheck(writer, path));
  const absl::Status migrated = Migrate(writer, EmbeddedMigrations());
  if (!migrated.ok()) {
    return absl::Status(migrated.code(), absl::StrCat(path, ": ", std::string(migrated.message())));
  }
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<CorpusRow> corpora, ListCorpora(writer));
  auto store = std::make_unique<SqliteStore>(options, std::move(lock), std::move(writer));
  ROPELAB_RETURN_IF_ERROR(store->artifacts().RemoveUnfinished());
  ROPELAB_RETURN_IF_ERROR(store->corpora().Sweep(corpora));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace ropelab::store
