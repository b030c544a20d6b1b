// A store that is full for a while: workers wait for their acknowledgements, nothing is lost, and it heals by
// itself.
#include <atomic>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "tests/unit/api/coordinator_fixture.h"

namespace ropelab::api {
namespace {

using std::chrono::milliseconds;

// Forwards to a real store; while full, every write fails as a commit without space does.
class FillingStore : public store::Store {
 public:
  explicit FillingStore(store::Store* real) : real_(real) {}
  void Write(WriteClosure write, Done done) override {
    if (holding) {
      MutexLock lock(&mutex_);
      held_.push_back(std::move(done));
    } else if (full) {
      real_->Write(
          [](store::Connection&) { return absl::ResourceExhaustedError("no space left on the disk"); },
          std::move(done));
    } else {
      real_->Write(std::move(write), std::move(done));
    }
  }
  absl::Status WriteAndWait(WriteClosure write) override {
    return full ? absl::ResourceExhaustedError("no space left on the disk")
                : real_->WriteAndWait(std::move(write));
  }
  absl::Status Read(absl::FunctionRef<absl::Status(store::Connection&)> read) override {
    return real_->Read(read);
  }
  store::ArtifactFiles& artifacts() override { return real_->artifacts(); }
  store::CorpusFiles& corpora() override { return real_->corpora(); }
  bool disk_full() const override { return full; }
  void Close() override {}

  size_t held() {
    MutexLock lock(&mutex_);
    return held_.size();
  }
  // Answers the write that has waited longest: there was no space.
  void FailFirstHeld() {
    Done done;
    {
      MutexLock lock(&mutex_);
      done = std::move(held_.front());
      held_.pop_front();
    }
    done(absl::ResourceExhaustedError("no space left on the disk"));
  }

  std::atomic<bool> full = false;
  std::atomic<bool> holding = false;  // writes are neither done nor answered

 private:
  store::Store* real_;
  Mutex mutex_;
  std::deque<Done> held_ ROPELAB_GUARDED_BY(mutex_);
};

class CoordinatorPauseTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    CoordinatorTest::SetUp();
    coordinator_->Stop();
    filling_ = std::make_unique<FillingStore>(store_.get());
    coordinator_ = Coordinator::Create(options_, filling_.get(), std::make_shared<prometheus::Registry>());
    ASSERT_TRUE(coordinator_->Start().ok());
  }
  void TearDown() override {
    CoordinatorTest::TearDown();
    filling_.reset();
  }
  std::unique_ptr<FillingStore> filling_;
};

TEST_F(CoordinatorPauseTest, ReadingsWaitInOrderAndAreAcknowledgedWhenThereIsSpaceAgain) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  filling_->full = true;
  worker.Finishes(*grant);  // two readings and the completion
  EXPECT_FALSE(worker.link().Sees(v1::ServerMessage::kAcknowledgement, milliseconds(300)));
  EXPECT_FALSE(worker.link().Sees(v1::ServerMessage::kFenced, milliseconds(0)));
  filling_->full = false;
  ASSERT_TRUE(Reaches(experiment, "done"));
  EXPECT_TRUE(worker.Acknowledged(grant->token(), 3));
  EXPECT_EQ(Attempts(grant->token().task()).size(), 1u);
}

TEST_F(CoordinatorPauseTest, WhatArrivesWhileEarlierReadingsAreInTheStoreStaysBehindThem) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  const std::vector<v1::Reading> readings = ReadingsOf(grant->measurement());
  ASSERT_EQ(readings.size(), 2u);
  filling_->holding = true;
  worker.Reads(grant->token(), 1, readings[0]);
  worker.Reads(grant->token(), 2, readings[1]);
  for (int wait = 0; wait < 200 && filling_->held() < 2; ++wait)
    std::this_thread::sleep_for(milliseconds(10));
  ASSERT_EQ(filling_->held(), 2u);
  filling_->full = true;
  filling_->FailFirstHeld();                   // reading 1 waits for space
  worker.Completes(grant->token(), readings);  // arrives while reading 2 is still in the store
  worker.Beats();
  ASSERT_TRUE(worker.link().Sees(v1::ServerMessage::kHeartbeatReply, milliseconds(2000)));
  filling_->FailFirstHeld();
  filling_->holding = false;
  filling_->full = false;
  ASSERT_TRUE(Reaches(experiment, "done"));
  EXPECT_TRUE(worker.Acknowledged(grant->token(), 3));
  EXPECT_EQ(Attempts(grant->token().task()).size(), 1u);
}

class ShortLeasePauseTest : public CoordinatorPauseTest {
 protected:
  ShortLeasePauseTest() { options_.lease_ms = 500; }
};

TEST_F(ShortLeasePauseTest, NoLeaseIsLostWhoseReadingsTheStoreDidNotTake) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  filling_->full = true;
  worker.Finishes(*grant);
  for (int beat = 0; beat < 20;
       ++beat) {  // three leases long, as of a worker that has gone on to another task
    worker.Beats();
    std::this_thread::sleep_for(milliseconds(75));
  }
  EXPECT_FALSE(worker.link().Sees(v1::ServerMessage::kFenced, milliseconds(0)));
  filling_->full = false;
  ASSERT_TRUE(Reaches(experiment, "done"));
  EXPECT_EQ(Attempts(grant->token().task()).size(), 1u);
}

TEST_F(CoordinatorPauseTest, GrantsAndFailuresGoOnWhenThereIsSpaceAgain) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  filling_->full = true;
  worker.HandsBack(grant->token());
  EXPECT_FALSE(worker.Granted(milliseconds(300)).has_value());
  filling_->full = false;
  EXPECT_EQ(FinishUntilFinal(worker, experiment), 1);
  EXPECT_TRUE(Reaches(experiment, "done"));
}

TEST_F(CoordinatorPauseTest, AWorkerThatCannotBeRecordedIsToldToComeAgain) {
  filling_->full = true;
  FakeWorker worker = Worker("w");
  worker.Connect();
  const auto closed = worker.link().WaitClosed();
  ASSERT_TRUE(closed.has_value());
  EXPECT_EQ(closed->code(), absl::StatusCode::kResourceExhausted);
  filling_->full = false;
  worker.Connect();
  EXPECT_GT(worker.Welcomed().session_epoch(), 0);
}

}  // namespace
}  // namespace ropelab::api
