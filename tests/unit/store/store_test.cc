// The store as a whole: one writer, durability, a full disk, a second server.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/store/data_dir.h"
#include "server/store/errors.h"
#include "server/store/migrations.h"
#include "tests/unit/store/store_fixture.h"

namespace ropelab::store {
namespace {

using testing::HasSubstr;

absl::Status Audit(Connection& db, const std::string& subject) {
  return db.Execute("INSERT INTO audit(at_us, user, action, subject) VALUES(1, 'ada', 'test', ?)", {subject})
      .status();
}

TEST_F(StoreTest, TheDatabaseIsSetUpForLife) {
  EXPECT_EQ(Number("PRAGMA page_size"), 8192);
  EXPECT_EQ(Number("PRAGMA auto_vacuum"), 2);  // INCREMENTAL
  EXPECT_EQ(Number("PRAGMA user_version"), static_cast<int64_t>(EmbeddedMigrations().size()));
  std::string mode;
  int64_t synchronous = -1, foreign_keys = -1;
  ASSERT_TRUE(WriteStatus([&](Connection& db) {
                (void)db.Query("PRAGMA synchronous", {}, [&](const Row& row) {
                  synchronous = row.Integer(0);
                  return absl::OkStatus();
                });
                (void)db.Query("PRAGMA foreign_keys", {}, [&](const Row& row) {
                  foreign_keys = row.Integer(0);
                  return absl::OkStatus();
                });
                return db.Query("PRAGMA journal_mode", {}, [&](const Row& row) {
                  mode = row.Text(0);
                  return absl::OkStatus();
                });
              }).ok());
  EXPECT_EQ(mode, "wal");
  EXPECT_EQ(synchronous, 2);  // FULL
  EXPECT_EQ(foreign_keys, 1);
}

TEST_F(StoreTest, AFailedWriteSpoilsNothingElseOfItsGroup) {
  std::atomic<int> fine{0}, failed{0};
  for (int i = 0; i < 100; ++i) {
    store_->Write(
        [i](Connection& db) -> absl::Status {
          absl::Status status = Audit(db, absl::StrCat(i));
          return status.ok() && i % 10 == 3 ? absl::AbortedError("on purpose") : status;
        },
        [&](absl::Status status) { (status.ok() ? fine : failed)++; });
  }
  ASSERT_TRUE(WriteStatus([](Connection&) { return absl::OkStatus(); }).ok());
  EXPECT_EQ(fine, 90);
  EXPECT_EQ(failed, 10);
  EXPECT_EQ(Number("SELECT COUNT(*) FROM audit"), 90);
}

TEST_F(StoreTest, DonesRunInTheOrderOfTheWrites) {
  std::vector<int> order;
  for (int i = 0; i < 50; ++i) {
    store_->Write([](Connection&) { return absl::OkStatus(); },
                  [&order, i](absl::Status) { order.push_back(i); });
  }
  ASSERT_TRUE(WriteStatus([](Connection&) { return absl::OkStatus(); }).ok());
  ASSERT_EQ(order.size(), 50u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(StoreTest, WhatIsAcknowledgedIsSeenByAReadThatStartsLater) {
  std::atomic<bool> missed{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string subject = absl::StrCat(t, "/", i);
        if (!WriteStatus([&](Connection& db) { return Audit(db, subject); }).ok()) missed = true;
        bool seen = false;
        (void)store_->Read([&](Connection& db) {
          return db.Query("SELECT 1 FROM audit WHERE subject = ?", {subject}, [&](const Row&) {
            seen = true;
            return absl::OkStatus();
          });
        });
        if (!seen) missed = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(missed);
}

TEST_F(StoreTest, AReadSeesOneMoment) {
  const absl::Status status = store_->Read([&](Connection& db) -> absl::Status {
    const auto count = [&] {
      int64_t found = -1;
      (void)db.Query("SELECT COUNT(*) FROM audit", {}, [&](const Row& row) {
        found = row.Integer(0);
        return absl::OkStatus();
      });
      return found;
    };
    const int64_t before = count();
    EXPECT_TRUE(WriteStatus([](Connection& writer) { return Audit(writer, "x"); }).ok());
    EXPECT_EQ(count(), before);
    EXPECT_EQ(db.Execute("DELETE FROM audit").status().code(),
              absl::StatusCode::kInternal);  // readers only read
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Number("SELECT COUNT(*) FROM audit"), 1);
}

TEST_F(StoreTest, CloseCommitsWhatIsQueuedAndRefusesMore) {
  std::atomic<int> fine{0};
  for (int i = 0; i < 20; ++i) {
    store_->Write([](Connection& db) { return Audit(db, "x"); },
                  [&](absl::Status status) { fine += status.ok(); });
  }
  store_->Close();
  EXPECT_EQ(fine, 20);
  EXPECT_EQ(WriteStatus([](Connection&) { return absl::OkStatus(); }).code(), absl::StatusCode::kUnavailable);
  Reopen();
  EXPECT_EQ(Number("SELECT COUNT(*) FROM audit"), 20);
}

TEST_F(StoreTest, ASecondServerOnTheSameDataDirIsRefusedWithThePidOfTheFirst) {
  const auto second = Store::Open({.data_dir = dir_.path()});
  ASSERT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat("pid ", getpid())));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(dir_.path()));
}

TEST_F(StoreTest, ADatabaseOfANewerVersionIsRefused) {
  ASSERT_TRUE(
      WriteStatus([](Connection& db) { return db.Execute("PRAGMA user_version = 999").status(); }).ok());
  store_.reset();
  const auto opened = Store::Open({.data_dir = dir_.path()});
  ASSERT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("999"));
}

TEST_F(StoreTest, ADamagedDatabaseIsRefused) {
  store_.reset();
  const std::string path = dir_.path() + "/ropelab.db";
  {
    // Overwrites every page but the first, headers and all.
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8192);
    file << std::string(std::filesystem::file_size(path) - 8192, '\x5a');
  }
  const auto opened = Store::Open({.data_dir = dir_.path()});
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kDataLoss) << opened.status();
}

TEST(DataDir, KnowsNetworkFileSystemsByTheirMagic) {
  EXPECT_EQ(NetworkFileSystemName(0x6969), "NFS");  // statfs(2)
  EXPECT_EQ(NetworkFileSystemName(0xFF534D42), "SMB");
  EXPECT_EQ(NetworkFileSystemName(0x65735546), "FUSE");
  EXPECT_EQ(NetworkFileSystemName(0xEF53), std::nullopt);      // ext4
  EXPECT_EQ(NetworkFileSystemName(0x01021994), std::nullopt);  // tmpfs
  EXPECT_EQ(NetworkFileSystemName(0x9123683E), std::nullopt);  // btrfs
}

TEST(Migrations, AMigrationThatFailsLeavesTheDatabaseBeforeIt) {
  TempDir dir;
  auto db = Connection::Open(dir.path() + "/x.db", Connection::Mode::kReadWrite);
  ASSERT_TRUE(db.ok()) << db.status();
  const std::vector<Migration> migrations = {{1, "0001_a", "CREATE TABLE a(x);"},
                                             {2, "0002_b", "CREATE TABLE b(x); CREATE TABLE a(x);"}};
  const absl::Status status = Migrate(*db, migrations);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("0002_b"));
  int64_t version = -1, tables = -1;
  ASSERT_TRUE(db->Query("SELECT user_version, (SELECT COUNT(*) FROM sqlite_schema) FROM pragma_user_version",
                        {},
                        [&](const Row& row) {
                          version = row.Integer(0);
                          tables = row.Integer(1);
                          return absl::OkStatus();
                        })
                  .ok());
  EXPECT_EQ(version, 1);
  EXPECT_EQ(tables, 1);
}

// ---- full disk ----

bool HealsWithin(Store& store, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (store.disk_full() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return !store.disk_full();
}

TEST_F(StoreTest, AFullDatabaseSaysSoAndHealsByItself) {
  // SQLite's own limit on pages gives the same error as a full disk.
  const auto set_limit = [](const std::string& pages) {
    return [pages](Connection& db) {
      return db.Query("PRAGMA max_page_count = " + pages, {}, [](const Row&) { return absl::OkStatus(); });
    };
  };
  ASSERT_TRUE(WriteStatus(set_limit("1")).ok());  // becomes the present size
  const absl::Status full = WriteStatus([](Connection& db) { return Audit(db, std::string(1 << 20, 'x')); });
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_TRUE(IsDiskFull(full));
  EXPECT_TRUE(store_->disk_full());
  EXPECT_EQ(Number("SELECT COUNT(*) FROM audit"), 0);
  EXPECT_TRUE(WriteStatus(set_limit("1000000")).ok());
  EXPECT_TRUE(HealsWithin(*store_, std::chrono::seconds(3)));
  EXPECT_TRUE(WriteStatus([](Connection& db) { return Audit(db, std::string(1 << 20, 'x')); }).ok());
  EXPECT_FALSE(store_->disk_full());
}

class Tmpfs {
 public:
  explicit Tmpfs(const std::string& options)
      : mounted_(mount("tmpfs", dir_.path().c_str(), "tmpfs", 0, options.c_str()) == 0) {}
  ~Tmpfs() {
    if (mounted_) umount2(dir_.path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  const std::string& path() const { return dir_.path(); }

 private:
  TempDir dir_;
  const bool mounted_;
};

TEST(FullDisk, KeepsWhatWasAcknowledgedReadsOnAndHealsWithoutARestart) {
  Tmpfs disk("size=4m");
  if (!disk.mounted()) GTEST_SKIP() << "needs root and leave to mount a tmpfs";
  std::ofstream(disk.path() + "/ballast") << std::string(2 << 20, 'b');
  auto opened = Store::Open({.data_dir = disk.path() + "/data"});
  ASSERT_TRUE(opened.ok()) << opened.status();
  Store& store = **opened;

  int64_t acknowledged = 0;
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = store.WriteAndWait([](Connection& db) { return Audit(db, std::string(30000, 'x')); });
    acknowledged += status.ok();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(store.disk_full());
  EXPECT_GT(acknowledged, 0);
  const absl::StatusOr<std::string> file = store.artifacts().Put(std::string(3 << 20, 'y'));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kResourceExhausted) << file.status();
  const auto count = [&] {
    int64_t rows = -1;
    EXPECT_TRUE(store
                    .Read([&](Connection& db) {
                      return db.Query("SELECT COUNT(*) FROM audit", {}, [&](const Row& row) {
                        rows = row.Integer(0);
                        return absl::OkStatus();
                      });
                    })
                    .ok());
    return rows;
  };
  EXPECT_EQ(count(), acknowledged);

  std::filesystem::remove(disk.path() + "/ballast");
  EXPECT_TRUE(HealsWithin(store, std::chrono::seconds(3)));
  EXPECT_TRUE(store.WriteAndWait([](Connection& db) { return Audit(db, std::string(30000, 'x')); }).ok());
  EXPECT_EQ(count(), acknowledged + 1);
  store.Close();
}

// ---- kill -9 ----

// Takes readings of one task as fast as it can and writes each number to `pipe` once it is acknowledged.
// Never returns.
[[noreturn]] void WriteUntilKilled(const std::string& data_dir, const Token& token, int64_t first, int pipe) {
  auto store = Store::Open({.data_dir = data_dir});
  if (!store.ok()) _exit(1);
  for (int64_t sequence = first;; ++sequence) {
    (*store)->Write(
        [&files = (*store)->artifacts(), token, sequence](Connection& db) -> absl::Status {
          return CommitReading(db, files, token, sequence, kAlphaSha, "alpha", 1).status();
        },
        [pipe, sequence](absl::Status status) {
          if (!status.ok() || write(pipe, &sequence, sizeof sequence) != sizeof sequence) _exit(2);
        });
  }
}

TEST_F(StoreTest, AKillLosesNothingThatWasAcknowledged) {
  const int64_t experiment = Submit("r1");
  Plan(experiment, {"k1"});
  Pin(experiment, "cls");
  const Token token = Lease(Tasks(experiment)[0].id);
  int64_t acknowledged = 0;
  for (int round = 0; round < 5; ++round) {
    const int64_t first = Task(token.task).readings + 1;
    store_.reset();
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteUntilKilled(dir_.path(), token, first, ends[1]);
    close(ends[1]);
    int64_t sequence = 0;
    // Killed in the middle of work: after some acknowledgements, at no point in particular.
    for (int i = 0; i < 200 + 137 * round && read(ends[0], &sequence, sizeof sequence) == sizeof sequence;
         ++i) {
      acknowledged = sequence;
    }
    kill(child, SIGKILL);
    while (read(ends[0], &sequence, sizeof sequence) == sizeof sequence) acknowledged = sequence;
    close(ends[0]);
    int how = 0;
    ASSERT_EQ(waitpid(child, &how, 0), child);
    ASSERT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL) << "the child ended by itself: " << how;

    Reopen();
    const TaskRow task = Task(token.task);
    EXPECT_GE(acknowledged, first);
    EXPECT_GE(task.readings, acknowledged);
    EXPECT_EQ(Number("SELECT COUNT(*) FROM readings"), task.readings);
    EXPECT_EQ(Number("SELECT MAX(sequence) FROM readings"), task.readings);
    EXPECT_EQ(Number("SELECT COUNT(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
  }
}

}  // namespace
}  // namespace ropelab::store
