// A store in a folder of its own, with one experiment's rows a call away.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/experiments.h"
#include "server/store/store.h"
#include "server/store/tasks.h"

namespace ropelab::store {

// Of printf and sha256sum, not of our code.
inline constexpr char kAlphaSha[] = "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8";
inline constexpr char kBetaSha[] = "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753";
inline constexpr char kGammaSha[] = "be9d587defa1f0c09ef49eb17e206983a5f8f8289e4281860bd0ee5a19592c67";
// SHA-256 of kAlphaSha followed by kBetaSha.
inline constexpr char kAlphaBetaDigest[] = "0cb0309affcf4f994813ec26b8afc7e0b758605a04641de9871e04363de5e6b8";
inline constexpr char kEmptySha[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "ropelab_store_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline ExperimentRow AnExperiment(const std::string& name) {
  ExperimentRow row;
  row.name = name;
  row.kind = "slash_detection";
  row.spec = "resolved";
  row.typed_spec = "typed";
  row.spec_hash = "hash of " + name;
  row.state = "queued";
  row.priority = "normal";
  row.submitted_us = 1000;
  return row;
}

inline NewTask ATask(const std::string& key) {
  return {key, "slash_profile", "measurement of " + key, "tiny", "weights"};
}

class StoreTest : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }

  void Reopen() {
    store_.reset();
    auto opened = Store::Open({.data_dir = dir_.path()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }

  // Runs in one write; the closure's own status and the commit's are both expected to be fine.
  template <typename F>
  auto Write(F function) {
    typename std::invoke_result_t<F, Connection&>::value_type value{};
    const absl::Status status = store_->WriteAndWait([&](Connection& db) {
      auto result = function(db);
      if (result.ok()) value = *std::move(result);
      return result.status();
    });
    EXPECT_TRUE(status.ok()) << status;
    return value;
  }
  template <typename F>
  auto Read(F function) {
    typename std::invoke_result_t<F, Connection&>::value_type value{};
    const absl::Status status = store_->Read([&](Connection& db) {
      auto result = function(db);
      if (result.ok()) value = *std::move(result);
      return result.status();
    });
    EXPECT_TRUE(status.ok()) << status;
    return value;
  }
  absl::Status WriteStatus(std::function<absl::Status(Connection&)> function) {
    return store_->WriteAndWait(std::move(function));
  }
  int64_t Number(const std::string& sql) {
    return Read([&](Connection& db) -> absl::StatusOr<int64_t> {
      int64_t number = -1;
      absl::Status status = db.Query(sql, {}, [&](const Row& row) {
        number = row.Integer(0);
        return absl::OkStatus();
      });
      if (!status.ok()) return status;
      return number;
    });
  }

  int64_t Submit(const std::string& request_id) {
    return Write([&](Connection& db) {
             return InsertSubmission(db, "ada", request_id, "hash", false, "", {AnExperiment(request_id)});
           })
        .experiment_ids.at(0);
  }
  // A stage 1 of tasks with these keys, planned whole.
  void Plan(int64_t experiment, const std::vector<std::string>& keys, const std::string& numerics_class = "",
            bool bypass_reuse = false) {
    std::vector<NewTask> tasks;
    for (const std::string& key : keys) tasks.push_back(ATask(key));
    const absl::Status planned = WriteStatus([&](Connection& db) -> absl::Status {
      absl::Status status = BeginStage(db, experiment, 1, "inputs");
      if (status.ok()) {
        status =
            InsertStageTasks(db, store_->artifacts(), experiment, 1, 0, tasks, numerics_class, bypass_reuse);
      }
      if (status.ok()) status = FinishPlanning(db, experiment, 1, "plan", static_cast<int64_t>(tasks.size()));
      return status;
    });
    ASSERT_TRUE(planned.ok()) << planned;
  }
  std::vector<TaskRow> Tasks(int64_t experiment) {
    return Read([&](Connection& db) { return TasksOf(db, experiment, 1); });
  }
  TaskRow Task(int64_t task) {
    return Read([&](Connection& db) { return GetTask(db, task); });
  }
  int64_t Pin(int64_t experiment, const std::string& numerics_class) {
    return Write([&](Connection& db) { return PinExperiment(db, experiment, numerics_class); });
  }
  Token Lease(int64_t task, const std::string& numerics_class = "cls", int64_t epoch = 7) {
    return Write([&](Connection& db) {
             GrantFacts facts;
             facts.task = task;
             facts.session_epoch = epoch;
             facts.worker = "w1";
             facts.incarnation = "i1";
             facts.numerics_class = numerics_class;
             facts.now_us = 2000;
             return OpenAttempt(db, facts);
           })
        .token;
  }
  Committed Commit(const Token& token, int64_t sequence, const std::string& sha256, const std::string& body) {
    return Write([&](Connection& db) {
      return CommitReading(db, store_->artifacts(), token, sequence, sha256, body, 3000);
    });
  }
  Committed Complete(const Token& token, int64_t sequence, const std::string& digest) {
    return Write(
        [&](Connection& db) { return CommitCompletion(db, token, sequence, digest, "fed", 12, 4000); });
  }
  // Finishes a task of class "cls" with the readings alpha and beta.
  Token Finish(int64_t task) {
    const Token token = Lease(task);
    EXPECT_EQ(Commit(token, 1, kAlphaSha, "alpha"), Committed::kStored);
    EXPECT_EQ(Commit(token, 2, kBetaSha, "beta"), Committed::kStored);
    EXPECT_EQ(Complete(token, 3, kAlphaBetaDigest), Committed::kStored);
    return token;
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
};

}  // namespace ropelab::store
