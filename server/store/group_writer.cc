#include "server/store/group_writer.h"

#include <chrono>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>
#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/errors.h"

namespace ropelab::store {
namespace {

// More would make the first of a group wait for nothing: a sync's cost is spread well before.
constexpr size_t kWritesPerGroup = 512;
constexpr std::chrono::seconds kProbePeriod{1};

}  // namespace

GroupWriter::GroupWriter(Connection connection, int64_t writes_in_flight)
    : connection_(std::move(connection)), writes_in_flight_(writes_in_flight), thread_([this] { Run(); }) {}

void GroupWriter::Write(Store::WriteClosure write, Store::Done done) {
  {
    MutexLock lock(&mutex_);
    while (!closing_ && queue_.size() >= writes_in_flight_ && !OnWriterThread()) changed_.Wait(&mutex_);
    if (!closing_ || OnWriterThread()) {
      queue_.push_back({std::move(write), std::move(done), absl::OkStatus()});
      changed_.NotifyAll();
      return;
    }
  }
  done(absl::UnavailableError("the store is closed: the server is stopping"));
}

void GroupWriter::Close() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  MutexLock lock(&join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void GroupWriter::Run() {
  writer_id_ = std::this_thread::get_id();
  for (;;) {
    std::vector<Queued> group;
    bool probe = false;
    {
      MutexLock lock(&mutex_);
      while (queue_.empty() && !closing_ && !probe) {
        if (disk_full_) {
          probe = !changed_.WaitFor(&mutex_, kProbePeriod);
        } else {
          changed_.Wait(&mutex_);
        }
      }
      if (queue_.empty() && closing_) return;
      while (!queue_.empty() && group.size() < kWritesPerGroup) {
        group.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      changed_.NotifyAll();
    }
    if (group.empty()) {
      ProbeSpace();
    } else {
      RunGroup(group);
    }
  }
}

void GroupWriter::RunGroup(std::vector<Queued>& group) {
  const absl::Status committed = Transact(group);
  bool full = IsDiskFull(committed);
  for (Queued& queued : group) {
    full = full || IsDiskFull(queued.status);
    // A write that failed by itself keeps its own, more telling status.
    if (!committed.ok() && queued.status.ok()) queued.status = committed;
  }
  if (full && !disk_full_)
    spdlog::error("no space for the database: submits are refused and workers pause until there is some");
  if (!full && committed.ok() && disk_full_) spdlog::info("the database has space again");
  if (full || committed.ok()) disk_full_ = full;
  for (Queued& queued : group) queued.done(std::move(queued.status));
}

absl::Status GroupWriter::Transact(std::vector<Queued>& group) {
  ROPELAB_RETURN_IF_ERROR(connection_.Execute("BEGIN IMMEDIATE").status());
  for (Queued& queued : group) {
    queued.status = RunOne(queued);
    if (sqlite3_get_autocommit(connection_.handle()) != 0) {
      // Some errors (full, I/O) make SQLite roll all of it back: then nothing of the group was kept, and the
      // rest is not run.
      return absl::Status(queued.status);
    }
  }
  absl::Status committed = connection_.Execute("COMMIT").status();
  if (!committed.ok() && sqlite3_get_autocommit(connection_.handle()) == 0)
    (void)connection_.Execute("ROLLBACK");
  return committed;
}

absl::Status GroupWriter::RunOne(Queued& queued) {
  ROPELAB_RETURN_IF_ERROR(connection_.Execute("SAVEPOINT one_write").status());
  absl::Status status = queued.write(connection_);
  if (sqlite3_get_autocommit(connection_.handle()) != 0) {
    if (status.ok()) status = absl::InternalError("a write ended the transaction that it runs in");
    return status;
  }
  if (!status.ok()) {
    if (absl::Status back = connection_.Execute("ROLLBACK TO one_write").status(); !back.ok()) return back;
  }
  if (absl::Status released = connection_.Execute("RELEASE one_write").status();
      !released.ok() && status.ok()) {
    status = released;
  }
  return status;
}

void GroupWriter::ProbeSpace() {
  // Nobody may be writing any more (workers wait for acknowledgements): a write of our own finds out that
  // space is back.
  std::vector<Queued> probe;
  probe.push_back(
      {[](Connection& db) {
         return db.Execute("UPDATE meta SET value = value + 1 WHERE name = 'space_probe'").status();
       },
       [](absl::Status) {}, absl::OkStatus()});
  RunGroup(probe);
}

}  // namespace ropelab::store
