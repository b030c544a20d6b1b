// How tasks and experiments end without a result: failures, poison, hand-backs, cancels.
#include <future>
#include <thread>

#include "tests/unit/api/coordinator_fixture.h"

namespace ropelab::api {
namespace {

using std::chrono::milliseconds;

class CoordinatorEndsTest : public CoordinatorTest {
 protected:
  absl::Status Cancel(int64_t experiment) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    auto future = promise->get_future();
    coordinator_->Cancel(experiment, "ada",
                         [promise](absl::Status status) { promise->set_value(std::move(status)); });
    EXPECT_EQ(future.wait_for(std::chrono::seconds(5)), std::future_status::ready);
    return future.get();
  }
};

TEST_F(CoordinatorEndsTest, APassingFailureIsChargedAndTriedAgainAfterABackOff) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8);
  const auto first = worker.Granted();
  ASSERT_TRUE(first.has_value());
  worker.Fails(first->token(), "the device was busy", false);
  const auto failed_at = std::chrono::steady_clock::now();
  const auto second = worker.Granted();
  ASSERT_TRUE(second.has_value());
  EXPECT_GE(std::chrono::steady_clock::now() - failed_at, milliseconds(90));
  EXPECT_EQ(second->token().attempt(), 2);
  worker.Finishes(*second);
  ASSERT_TRUE(Reaches(experiment, "done"));
  EXPECT_EQ(Tasks(experiment)[0].charged_attempts, 1);
  EXPECT_EQ(Attempts(first->token().task())[0].cause, "the device was busy");
}

TEST_F(CoordinatorEndsTest, AfterMaxAttemptsTheTaskIsPoisonedAndTheExperimentSaysByWhat) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8);
  for (int i = 0; i < 3; ++i) {
    const auto grant = worker.Granted();
    ASSERT_TRUE(grant.has_value()) << i;
    worker.Fails(grant->token(), "illegal instruction", false);
  }
  ASSERT_TRUE(Reaches(experiment, "failed"));
  const std::string reason = Row(experiment).reason;
  EXPECT_NE(reason.find("poisoned on worker w"), std::string::npos) << reason;
  EXPECT_NE(reason.find("illegal instruction"), std::string::npos) << reason;
  EXPECT_NE(reason.find("the last line before it broke"), std::string::npos) << reason;
  EXPECT_EQ(Tasks(experiment)[0].state, "poisoned");
}

TEST_F(CoordinatorEndsTest, APermanentFailureFailsTheExperimentAtOnce) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 16);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  worker.Fails(grant->token(), "layer 3 of tiny holds NaN", true);
  ASSERT_TRUE(Reaches(experiment, "failed"));
  EXPECT_NE(Row(experiment).reason.find("layer 3 of tiny holds NaN"), std::string::npos);
  EXPECT_TRUE(worker.link().Sees(v1::ServerMessage::kCancel, std::chrono::seconds(2)))
      << "the one fetched ahead is called back";
}

TEST_F(CoordinatorEndsTest, AHandedBackTaskIsNotCharged) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8);
  for (int i = 0; i < 4; ++i) {
    const auto grant = worker.Granted();
    ASSERT_TRUE(grant.has_value());
    worker.HandsBack(grant->token());
  }
  EXPECT_EQ(FinishUntilFinal(worker, experiment), 1);
  ASSERT_TRUE(Reaches(experiment, "done"));
  EXPECT_EQ(Tasks(experiment)[0].charged_attempts, 0);
}

TEST_F(CoordinatorEndsTest, AReadingThatNamesAnArtifactThatIsNotThereFailsTheTask) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8);
  for (int i = 0; i < 3; ++i) {
    const auto grant = worker.Granted();
    ASSERT_TRUE(grant.has_value());
    v1::Reading reading = ReadingsOf(grant->measurement())[0];
    v1::ArtifactName& artifact = *reading.add_artifacts();
    artifact.set_name("map.safetensors");
    artifact.set_sha256(std::string(64, 'a'));
    worker.Reads(grant->token(), 1, reading);
  }
  ASSERT_TRUE(Reaches(experiment, "failed"));
  EXPECT_NE(Row(experiment).reason.find("map.safetensors"), std::string::npos) << Row(experiment).reason;
}

TEST_F(CoordinatorEndsTest, AnArtifactUploadedBeforeItsReadingIsStored) {
  FakeWorker worker = ConnectedWorker("w");
  Submit("r", 8);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  // SHA-256 of "abc" (FIPS 180-2, appendix B.1).
  const std::string sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  for (int i = 0; i < 3; ++i) {
    v1::WorkerMessage message;
    v1::ArtifactChunk& chunk = *message.mutable_artifact();
    *chunk.mutable_token() = grant->token();
    chunk.set_sha256(sha);
    chunk.set_offset(i);
    chunk.set_data(std::string(1, static_cast<char>('a' + i)));
    chunk.set_last(i == 2);
    worker.Say(message);
  }
  v1::Reading reading = ReadingsOf(grant->measurement())[0];
  v1::ArtifactName& artifact = *reading.add_artifacts();
  artifact.set_name("abc");
  artifact.set_sha256(sha);
  artifact.set_bytes(3);
  worker.Reads(grant->token(), 1, reading);
  EXPECT_TRUE(worker.Acknowledged(grant->token(), 1));
  EXPECT_EQ(*store_->artifacts().Get(sha), "abc");
}

TEST_F(CoordinatorEndsTest, CancelReachesTheRunningTaskAndFreesTheWorker) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 24);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  ASSERT_TRUE(worker.Granted().has_value());
  EXPECT_TRUE(Cancel(experiment).ok());
  EXPECT_EQ(Row(experiment).state, "cancelled");
  ASSERT_TRUE(worker.link().Next(v1::ServerMessage::kCancel).has_value());
  ASSERT_TRUE(Eventually([&] { return Attempts(grant->token().task())[0].outcome == "cancelled"; }));
  worker.Reads(grant->token(), 1, ReadingsOf(grant->measurement())[0]);
  EXPECT_TRUE(worker.link().Next(v1::ServerMessage::kFenced).has_value())
      << "nothing is written after the cancel";
  worker.Beats();
  const int64_t next = Submit("r2", 24);
  EXPECT_EQ(FinishUntilFinal(worker, next), 3);
  EXPECT_TRUE(Reaches(next, "done"));
}

TEST_F(CoordinatorEndsTest, CancelIsIdempotentAndRefusedForWhatIsDone) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t cancelled = Submit("r1", 80);
  EXPECT_TRUE(Cancel(cancelled).ok());
  EXPECT_TRUE(Cancel(cancelled).ok());
  const int64_t done = Submit("r2", 8, false, 7);
  FinishUntilFinal(worker, done);
  ASSERT_TRUE(Reaches(done, "done"));
  EXPECT_EQ(Cancel(done).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Cancel(999).code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorEndsTest, CancelOfOneOfTwoLeavesWhatTheOtherWants) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t first = Submit("r1", 8);
  const auto grant = worker.Granted();
  ASSERT_TRUE(grant.has_value());
  const int64_t second = Submit("r2", 8);
  ASSERT_TRUE(Eventually([&] { return coordinator_->Live(second).tasks_running == 1; }));
  EXPECT_TRUE(Cancel(first).ok());
  EXPECT_FALSE(worker.link().Sees(v1::ServerMessage::kCancel, milliseconds(200)));
  worker.Finishes(*grant);
  EXPECT_TRUE(Reaches(second, "done"));
  EXPECT_EQ(Row(first).state, "cancelled");
}

TEST_F(CoordinatorEndsTest, SaysWhyNothingRuns) {
  {
    FakeWorker worker = Worker("w");
    worker.Connect();
    worker.Welcomed();
    worker.Disconnect();
  }
  const int64_t experiment = Submit("r", 8);
  EXPECT_TRUE(Eventually([&] { return coordinator_->Live(experiment).reason == "no worker is connected"; }))
      << coordinator_->Live(experiment).reason;
  FakeWorker other(coordinator_.get(), "other", "i", "c1");
  other.knows_weights = false;
  other.Connect();
  other.Welcomed();
  EXPECT_TRUE(Eventually([&] {
    return coordinator_->Live(experiment).reason == "hashing weights of tiny on worker other";
  })) << coordinator_->Live(experiment).reason;
}

}  // namespace
}  // namespace ropelab::api
