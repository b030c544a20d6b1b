// The store: one SQLite database and folders of artifacts and corpora under the server's data directory. The
// only code that speaks SQL. It knows rows, not meanings: no experiment kinds, no scheduling.
//
// Threads: every method may be called from any thread. Writes are closures; one writer thread runs them in
// order, many in one transaction (group commit, WAL, synchronous=FULL), each under a savepoint of its own so
// that one failure spoils nothing else. `done` runs on the writer thread after the commit is on disk: what it
// acknowledges is durable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/artifact_files.h"
#include "server/store/connection.h"
#include "server/store/corpus_files.h"

namespace ropelab::store {

struct StoreOptions {
  std::string data_dir;
  int64_t writes_in_flight = 4096;  // Write blocks beyond this many
};

class Store {
 public:
  // Creates or migrates the database. Refuses, naming the cause: a second scheduler on this data-dir (an OFD
  // lock; the holder's pid is named), a network file system, a database of a newer version, a database that
  // fails quick_check.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options);
  virtual ~Store() = default;

  using WriteClosure = absl::AnyInvocable<absl::Status(Connection&)>;
  using Done = absl::AnyInvocable<void(absl::Status)>;

  // Queues `write`. If the closure fails, its effects are rolled back and `done` gets its status; if the
  // commit fails (disk full, I/O error), `done` gets RESOURCE_EXHAUSTED or UNAVAILABLE and nothing of the
  // group was kept.
  virtual void Write(WriteClosure write, Done done) = 0;
  // The same, waiting. Never call it on the writer thread.
  virtual absl::Status WriteAndWait(WriteClosure write) = 0;
  // Runs `read` on a snapshot of its own, beside the writer.
  virtual absl::Status Read(absl::FunctionRef<absl::Status(Connection&)> read) = 0;

  virtual ArtifactFiles& artifacts() = 0;
  virtual CorpusFiles& corpora() = 0;
  // True while the last commit failed for want of space. Heals by itself.
  virtual bool disk_full() const = 0;
  // Commits what is queued and ends the writer thread.
  virtual void Close() = 0;
};

}  // namespace ropelab::store
