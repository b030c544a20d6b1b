// Streams that are cut, workers that come back, servers that restart.
#include <thread>

#include "tests/unit/api/coordinator_fixture.h"

namespace ropelab::api {
namespace {

using std::chrono::milliseconds;

class CoordinatorSessionsTest : public CoordinatorTest {
 protected:
  // A worker with one grant, one reading of it acknowledged.
  v1::Grant HalfMeasured(FakeWorker& worker) {
    worker.Connect();
    worker.Welcomed();
    experiment_ = Submit("r", 8);
    const auto grant = worker.Granted();
    EXPECT_TRUE(grant.has_value());
    worker.Reads(grant->token(), 1, ReadingsOf(grant->measurement())[0]);
    EXPECT_TRUE(worker.Acknowledged(grant->token(), 1));
    return *grant;
  }
  // The verdict's new token goes on from reading 2 to the end.
  void FinishesKept(FakeWorker& worker, v1::Grant grant, const v1::LeaseVerdict& verdict) {
    *grant.mutable_token() = verdict.new_token();
    grant.set_resume_after(verdict.resume_after());
    grant.set_ahead(false);
    worker.Finishes(grant);
  }
  int64_t experiment_ = 0;
};

TEST_F(CoordinatorSessionsTest, AHeldLeaseIsKeptUnderTheNewSessionAndGoesOn) {
  FakeWorker worker = Worker("w");
  const v1::Grant grant = HalfMeasured(worker);
  worker.Disconnect();
  worker.Connect({grant.token()});
  const v1::Welcome welcome = worker.Welcomed();
  ASSERT_EQ(welcome.held_size(), 1);
  EXPECT_TRUE(welcome.held(0).keep());
  EXPECT_EQ(welcome.held(0).resume_after(), 1);
  EXPECT_EQ(welcome.held(0).new_token().session_epoch(), welcome.session_epoch());
  EXPECT_EQ(welcome.held(0).new_token().attempt(), grant.token().attempt());
  FinishesKept(worker, grant, welcome.held(0));
  ASSERT_TRUE(Reaches(experiment_, "done"));
  EXPECT_EQ(Attempts(grant.token().task()).size(), 1u);
}

TEST_F(CoordinatorSessionsTest, AHelloThatWasAnsweredIntoTheVoidDoesNotCostTheLease) {
  FakeWorker worker = Worker("w");
  const v1::Grant grant = HalfMeasured(worker);
  worker.Disconnect();
  worker.Connect({grant.token()});  // its Welcome is never read
  worker.Disconnect();
  worker.Connect({grant.token()});
  const v1::Welcome welcome = worker.Welcomed();
  ASSERT_EQ(welcome.held_size(), 1);
  EXPECT_TRUE(welcome.held(0).keep());
  FinishesKept(worker, grant, welcome.held(0));
  EXPECT_TRUE(Reaches(experiment_, "done"));
}

TEST_F(CoordinatorSessionsTest, MessagesUnderAnOldEpochAreFenced) {
  FakeWorker worker = Worker("w");
  const v1::Grant grant = HalfMeasured(worker);
  worker.Disconnect();
  worker.Connect({grant.token()});
  worker.Welcomed();
  worker.Reads(grant.token(), 2, ReadingsOf(grant.measurement())[1]);
  const auto fenced = worker.link().Next(v1::ServerMessage::kFenced);
  ASSERT_TRUE(fenced.has_value());
  EXPECT_EQ(fenced->fenced().token().session_epoch(), grant.token().session_epoch());
}

TEST_F(CoordinatorSessionsTest, ANewIncarnationFreesTheLeaseAtOnceAndItsReadingsStay) {
  FakeWorker worker = Worker("w");
  const v1::Grant grant = HalfMeasured(worker);
  FakeWorker again = Worker("w", "i2");
  again.Connect({grant.token()});
  const v1::Welcome welcome = again.Welcomed();
  ASSERT_EQ(welcome.held_size(), 1);
  EXPECT_FALSE(welcome.held(0).keep());
  const auto next = again.Granted();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->token().task(), grant.token().task());
  EXPECT_EQ(next->token().attempt(), 2);
  EXPECT_EQ(next->resume_after(), 1);
  again.Finishes(*next);
  ASSERT_TRUE(Reaches(experiment_, "done"));
  const auto attempts = Attempts(grant.token().task());
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0].outcome, "lost");
  EXPECT_EQ(Tasks(experiment_)[0].charged_attempts, 0) << "a reading of it was committed";
}

TEST_F(CoordinatorSessionsTest, ALossWithoutAReadingIsChargedUnlessItWasFetchedAhead) {
  FakeWorker worker = ConnectedWorker("w");
  experiment_ = Submit("r", 16);
  const auto running = worker.Granted();
  const auto ahead = worker.Granted();
  ASSERT_TRUE(running.has_value() && ahead.has_value());
  ASSERT_TRUE(ahead->ahead());
  FakeWorker again = ConnectedWorker("w", "i2");
  EXPECT_EQ(FinishUntilFinal(again, experiment_), 2);
  ASSERT_TRUE(Reaches(experiment_, "done"));
  for (const store::TaskRow& task : Tasks(experiment_)) {
    EXPECT_EQ(task.charged_attempts, task.id == running->token().task() ? 1 : 0);
  }
}

TEST_F(CoordinatorSessionsTest, ANewerSessionOfTheSameWorkerClosesTheOlder) {
  FakeWorker first = ConnectedWorker("w");
  FakeWorker second = ConnectedWorker("w", "i2");
  const auto closed = first.link().WaitClosed();
  ASSERT_TRUE(closed.has_value());
  EXPECT_EQ(closed->code(), absl::StatusCode::kAborted);
  EXPECT_EQ(coordinator_->Workers().size(), 1u);
}

TEST_F(CoordinatorSessionsTest, TellsWhatWorkersHoldAndWhatTheyMeasuredOnLast) {
  FakeWorker first = ConnectedWorker("w");
  ASSERT_EQ(coordinator_->Holdings().size(), 1u);
  EXPECT_FALSE(coordinator_->Holdings()[0].loaded);
  experiment_ = Submit("r", 8);
  EXPECT_EQ(FinishUntilFinal(first, experiment_), 1);
  const std::vector<Holding> holdings = coordinator_->Holdings();
  ASSERT_EQ(holdings.size(), 1u);
  EXPECT_EQ(holdings[0].worker, "w");
  EXPECT_EQ(holdings[0].name, "tiny");
  EXPECT_EQ(holdings[0].weights_hash, "weights");
  EXPECT_TRUE(holdings[0].loaded);
  EXPECT_EQ(coordinator_->Workers()[0].models_size(), 1);
  first.Disconnect();
  for (int wait = 0; wait < 200 && !coordinator_->Holdings().empty(); ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(coordinator_->Holdings().empty());
}

TEST_F(CoordinatorSessionsTest, AGrantThatNeverArrivedIsPendingAgainAndNotCharged) {
  FakeWorker worker = ConnectedWorker("w");
  experiment_ = Submit("r", 8);
  ASSERT_TRUE(worker.Granted().has_value());  // the script forgets it
  worker.Disconnect();
  worker.Connect();
  worker.Welcomed();
  EXPECT_EQ(FinishUntilFinal(worker, experiment_), 1);
  ASSERT_TRUE(Reaches(experiment_, "done"));
  EXPECT_EQ(Tasks(experiment_)[0].charged_attempts, 0);
}

TEST_F(CoordinatorSessionsTest, RefusesAProtocolThatItDoesNotSpeakAndTwoHellos) {
  auto link = std::make_shared<FakeLink>();
  const int64_t id = coordinator_->LinkOpened(link);
  v1::WorkerMessage message;
  message.mutable_hello()->set_worker_id("w");
  message.mutable_hello()->set_incarnation("i");
  message.mutable_hello()->mutable_numerics()->set_hash("c");
  message.mutable_hello()->set_protocol_first(2);
  message.mutable_hello()->set_protocol_last(3);
  coordinator_->LinkMessage(id, message, [] {});
  const auto closed = link->WaitClosed();
  ASSERT_TRUE(closed.has_value());
  EXPECT_EQ(closed->code(), absl::StatusCode::kFailedPrecondition);

  FakeWorker worker = ConnectedWorker("w");
  message.mutable_hello()->set_protocol_first(1);
  worker.Say(message);
  const auto twice = worker.link().WaitClosed();
  ASSERT_TRUE(twice.has_value());
  EXPECT_EQ(twice->code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorSessionsTest, ADrainingWorkerGetsNothingNew) {
  FakeWorker worker = ConnectedWorker("w");
  v1::WorkerMessage draining;
  draining.mutable_draining();
  worker.Say(draining);
  experiment_ = Submit("r", 8);
  EXPECT_FALSE(worker.Granted(milliseconds(400)).has_value());
  EXPECT_EQ(coordinator_->Live(experiment_).reason.empty(), false);
  EXPECT_EQ(coordinator_->Workers()[0].state(), "draining");
}

TEST_F(CoordinatorSessionsTest, AfterAServerRestartTheLeaseIsKeptAndTheExperimentEnds) {
  std::optional<v1::Grant> grant;
  {
    FakeWorker worker = Worker("w");
    grant = HalfMeasured(worker);
    StopServer();
    EXPECT_TRUE(worker.link().Sees(v1::ServerMessage::kRestarting, milliseconds(0)));
    EXPECT_TRUE(worker.link().WaitClosed().has_value());
  }
  StartServer();
  FakeWorker worker = Worker("w");
  worker.Connect({grant->token()});
  const v1::Welcome welcome = worker.Welcomed();
  ASSERT_EQ(welcome.held_size(), 1);
  ASSERT_TRUE(welcome.held(0).keep());
  EXPECT_EQ(welcome.held(0).resume_after(), 1);
  FinishesKept(worker, *grant, welcome.held(0));
  ASSERT_TRUE(Reaches(experiment_, "done"));
  EXPECT_EQ(Attempts(grant->token().task()).size(), 1u);
}

TEST_F(CoordinatorSessionsTest, AfterAServerRestartANewProcessOfTheWorkerTakesOver) {
  std::optional<v1::Grant> grant;
  {
    FakeWorker worker = Worker("w");
    grant = HalfMeasured(worker);
    StopServer();
  }
  StartServer();
  FakeWorker worker = ConnectedWorker("w", "i2");
  EXPECT_EQ(FinishUntilFinal(worker, experiment_), 1);
  ASSERT_TRUE(Reaches(experiment_, "done"));
  EXPECT_EQ(Tasks(experiment_)[0].charged_attempts, 0);
}

TEST_F(CoordinatorSessionsTest, RestartsBetweenAnyTwoTasksGiveTheSameResult) {
  {
    FakeWorker worker = Worker("w");
    worker.Connect();
    worker.Welcomed();
    experiment_ = Submit("r", 32, /*sampled=*/true);
    EXPECT_EQ(FinishUntilFinal(worker, experiment_), 8);
    ASSERT_TRUE(Reaches(experiment_, "done"));
  }
  const std::string digest = Row(experiment_).result_digest;
  StartAnew();
  for (int round = 0; round == 0 || Row(1).state != "done"; ++round) {
    ASSERT_LT(round, 30);
    FakeWorker worker = Worker("w", std::to_string(round));
    worker.Connect();
    worker.Welcomed();
    if (round == 0) {
      ASSERT_EQ(Submit("r", 32, /*sampled=*/true), 1);
    }
    if (const auto grant = worker.Granted(milliseconds(300)); grant.has_value()) {
      worker.Finishes(*grant);
    }
    StopServer();
    StartServer();
  }
  EXPECT_EQ(Row(1).result_digest, digest);
}

class CoordinatorExpiryTest : public CoordinatorSessionsTest {
 protected:
  CoordinatorExpiryTest() {
    options_.lease_ms = 400;
    options_.heartbeat_ms = 60;
  }
};

TEST_F(CoordinatorExpiryTest, ASilentWorkerIsLostAndItsTaskGoesToAnother) {
  FakeWorker silent = Worker("silent");
  const v1::Grant grant = HalfMeasured(silent);
  const auto closed = silent.link().WaitClosed();
  ASSERT_TRUE(closed.has_value());
  EXPECT_EQ(closed->code(), absl::StatusCode::kDeadlineExceeded);
  FakeWorker other = ConnectedWorker("other");
  EXPECT_EQ(FinishUntilFinal(other, experiment_), 1);
  ASSERT_TRUE(Reaches(experiment_, "done"));
  // What the silent one still says is refused, and it is told to drop the work.
  silent.Connect({grant.token()});
  const v1::Welcome welcome = silent.Welcomed();
  ASSERT_EQ(welcome.held_size(), 1);
  EXPECT_FALSE(welcome.held(0).keep());
}

TEST_F(CoordinatorExpiryTest, ALeaseThatNobodyRenewsExpiresWhileTheSessionLives) {
  FakeWorker worker = Worker("w");
  const v1::Grant grant = HalfMeasured(worker);
  std::optional<v1::ServerMessage> fenced;
  for (int i = 0; i < 40 && !fenced.has_value(); ++i) {
    worker.Beats();
    fenced = worker.link().Next(v1::ServerMessage::kFenced, milliseconds(50));
  }
  ASSERT_TRUE(fenced.has_value());
  EXPECT_EQ(fenced->fenced().token().task(), grant.token().task());
}

TEST_F(CoordinatorExpiryTest, HeartbeatsThatNameTheLeaseRenewIt) {
  FakeWorker worker = Worker("w");
  const v1::Grant grant = HalfMeasured(worker);
  for (int i = 0; i < 20; ++i) {
    worker.Beats(&grant.token());
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_FALSE(worker.link().Sees(v1::ServerMessage::kFenced, milliseconds(0)));
  v1::Grant rest = grant;
  rest.set_resume_after(1);
  worker.Finishes(rest);
  EXPECT_TRUE(Reaches(experiment_, "done"));
}

TEST_F(CoordinatorExpiryTest, AfterARestartAnOpenAttemptGetsOneLeaseTime) {
  {
    FakeWorker worker = Worker("w");
    HalfMeasured(worker);
    StopServer();
  }
  StartServer();
  const auto began = std::chrono::steady_clock::now();
  FakeWorker other = ConnectedWorker("other");
  std::optional<v1::Grant> grant;
  while (!grant.has_value() && std::chrono::steady_clock::now() - began < std::chrono::seconds(5)) {
    other.Beats();
    grant = other.Granted(milliseconds(50));
  }
  ASSERT_TRUE(grant.has_value());
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(300));
  EXPECT_EQ(grant->resume_after(), 1);
}

}  // namespace
}  // namespace ropelab::api
