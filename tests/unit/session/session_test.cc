// The session's threads against a server played by hand over loopback; the measurement is a function of the
// test.
#include "worker/session/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/mutex.h"
#include "common/sha256.h"
#include "tests/unit/session/fake_server.h"
#include "tests/unit/session/server_messages.h"
#include "worker/session/credentials.h"

namespace ropelab::session {
namespace {

using std::chrono::milliseconds;
using Kind = v1::WorkerMessage::MessageCase;

v1::ServerMessage Verdict(v1::ServerMessage welcome, const v1::LeaseToken& old_token,
                          const v1::LeaseToken& new_token, bool keep, int64_t resume_after) {
  v1::LeaseVerdict* verdict = welcome.mutable_welcome()->add_held();
  *verdict->mutable_old_token() = old_token;
  *verdict->mutable_new_token() = new_token;
  verdict->set_keep(keep);
  verdict->set_resume_after(resume_after);
  return welcome;
}

// Reading i of every task of these tests.
v1::Reading ReadingNumber(int i) {
  v1::Reading reading;
  reading.mutable_sampled_tokens()->set_sample(i);
  return reading;
}

// By hand: SHA-256 over the hex digests of the bodies, in order.
std::string DigestOf(int readings) {
  std::string all;
  for (int i = 1; i <= readings; ++i) all += Sha256Hex(ReadingNumber(i).SerializeAsString());
  return Sha256Hex(all);
}

class SessionTest : public testing::Test {
 protected:
  void Start(size_t buffer_entries = 64) {
    SessionOptions options;
    options.machine.buffer.entries = buffer_entries;
    options.machine.drain_grace = milliseconds(300);
    options.flush_time = milliseconds(300);
    options.channel = [target = server_->target()] {
      return MakeChannel(target, grpc::InsecureChannelCredentials());
    };
    options.token = "secret";
    options.hello = [] {
      v1::Hello hello;
      hello.set_worker_id("test");
      return hello;
    };
    options.run_task = [this](const v1::Grant&, absl::FunctionRef<void(bool)>, measure::Recorder& recorder) {
      return Measure(recorder);
    };
    options.hash = [](const std::string& model, absl::FunctionRef<bool(int64_t, int64_t)>) {
      v1::WeightsHash hash;
      hash.set_model(model);
      hash.set_weights_hash("abc");
      return hash;
    };
    options.models_stamp = [this] {
      MutexLock lock(&models_mutex_);
      return models_;
    };
    options.rescan = milliseconds(50);
    session_ = std::make_unique<Session>(std::move(options));
    running_ = std::thread([this] { session_->Run([this] { started_ = true; }); });
  }

  void TearDown() override {
    finish_ = true;
    if (session_ != nullptr) session_->Drain();
    if (running_.joinable()) running_.join();
  }

  // Emits readings_ readings, waiting before each number for which the test said so.
  absl::StatusOr<measure::Outcome> Measure(measure::Recorder& recorder) {
    for (int i = 1; i <= readings_; ++i) {
      while (i > allowed_ && !finish_) {
        if (const absl::Status status = recorder.Progress(i, readings_); !status.ok()) return Stopped(status);
        std::this_thread::sleep_for(milliseconds(2));
      }
      if (const absl::Status status = recorder.Emit(ReadingNumber(i), {}); !status.ok())
        return Stopped(status);
      emitted_ = i;
    }
    if (!failure_.ok()) return failure_;
    return measure::Outcome{"fed"};
  }
  absl::Status Stopped(const absl::Status& status) {
    ++stopped_;
    return status;
  }

  // Hello, answered with Welcome of this epoch.
  v1::Hello Greet(int64_t epoch) {
    const std::optional<v1::WorkerMessage> hello = server_->Await(Kind::kHello);
    EXPECT_TRUE(hello);
    server_->Send(Welcome(epoch));
    return hello ? hello->hello() : v1::Hello();
  }
  int64_t AwaitReading() {
    const std::optional<v1::WorkerMessage> message = server_->Await(Kind::kReading);
    return message ? message->reading().sequence() : -1;
  }
  bool Eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 2000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return false;
  }

  std::unique_ptr<FakeServer> server_ = std::make_unique<FakeServer>();
  std::unique_ptr<Session> session_;
  std::thread running_;
  int readings_ = 3;
  absl::Status failure_;
  std::atomic<int> allowed_{1 << 20};  // readings that may be emitted
  std::atomic<int> emitted_{0};
  std::atomic<int> stopped_{0};
  std::atomic<bool> finish_{false};
  std::atomic<bool> started_{false};
  Mutex models_mutex_;
  std::string models_ = "one";  // what a look at the models folders gives
};

TEST_F(SessionTest, RunsAGrantToItsCompletion) {
  Start();
  const v1::Hello hello = Greet(5);
  EXPECT_EQ(hello.worker_id(), "test");
  EXPECT_EQ(hello.held_size(), 0);
  EXPECT_EQ(server_->authorization(), "Bearer secret");
  server_->Send(Grant(Token(7, 1, 5)));
  for (int i = 1; i <= 3; ++i) {
    const std::optional<v1::WorkerMessage> message = server_->Await(Kind::kReading);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->reading().sequence(), i);
    EXPECT_EQ(message->reading().body(), ReadingNumber(i).SerializeAsString());
    EXPECT_EQ(message->reading().sha256(), Sha256Hex(message->reading().body()));
  }
  const std::optional<v1::WorkerMessage> end = server_->Await(Kind::kCompletion);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->completion().sequence(), 4);
  EXPECT_EQ(end->completion().digest(), DigestOf(3));
  EXPECT_EQ(end->completion().fed_ids_digest(), "fed");
  EXPECT_EQ(end->completion().token().task(), 7);
  server_->Send(Ack(Token(7, 1, 5), 4));
}

TEST_F(SessionTest, AResumedTaskSkipsReadingsAndStillHasTheWholeDigest) {
  Start();
  Greet(5);
  server_->Send(Grant(Token(7, 2, 5), /*resume_after=*/2));
  EXPECT_EQ(AwaitReading(), 3);
  const std::optional<v1::WorkerMessage> end = server_->Await(Kind::kCompletion);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->completion().digest(), DigestOf(3));
}

TEST_F(SessionTest, MeasuresOnWhileCutOffAndReplaysUnderTheNewToken) {
  readings_ = 6;
  allowed_ = 2;
  Start();
  Greet(5);
  server_->Send(Grant(Token(7, 1, 5)));
  EXPECT_EQ(AwaitReading(), 1);
  EXPECT_EQ(AwaitReading(), 2);
  server_->Send(Ack(Token(7, 1, 5), 1));
  server_->Cut();
  allowed_ = 4;
  EXPECT_TRUE(Eventually([&] { return emitted_ == 4; }));

  const std::optional<v1::WorkerMessage> hello = server_->Await(Kind::kHello);
  ASSERT_TRUE(hello);
  ASSERT_EQ(hello->hello().held_size(), 1);
  EXPECT_EQ(hello->hello().held(0).token().task(), 7);
  EXPECT_EQ(hello->hello().held(0).last_sequence_sent(), 2);
  server_->Send(Verdict(Welcome(6), Token(7, 1, 5), Token(7, 1, 6), true, 1));
  allowed_ = 6;
  for (int i = 2; i <= 6; ++i) {
    const std::optional<v1::WorkerMessage> message = server_->Await(Kind::kReading);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->reading().sequence(), i);
    EXPECT_EQ(message->reading().token().session_epoch(), 6);
  }
  EXPECT_EQ(server_->Await(Kind::kCompletion)->completion().digest(), DigestOf(6));
}

TEST_F(SessionTest, StopsARevokedTaskAndTakesTheNext) {
  allowed_ = 1;
  Start();
  Greet(5);
  server_->Send(Grant(Token(7, 1, 5)));
  EXPECT_EQ(AwaitReading(), 1);
  server_->Cut();
  ASSERT_TRUE(server_->Await(Kind::kHello));
  server_->Send(Verdict(Welcome(6), Token(7, 1, 5), {}, false, 0));
  EXPECT_TRUE(Eventually([&] { return stopped_ == 1; }));
  allowed_ = 3;
  server_->Send(Grant(Token(8, 1, 6)));
  const std::optional<v1::WorkerMessage> end = server_->Await(Kind::kCompletion);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->completion().token().task(), 8);
}

TEST_F(SessionTest, AFullBufferHoldsTheMeasurementUntilSomethingIsAcknowledged) {
  readings_ = 10;
  Start(/*buffer_entries=*/4);
  Greet(5);
  server_->Send(Grant(Token(7, 1, 5)));
  EXPECT_TRUE(Eventually([&] { return emitted_ == 4; }));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(emitted_, 4);
  server_->Send(Ack(Token(7, 1, 5), 3));
  EXPECT_TRUE(Eventually([&] { return emitted_ == 7; }));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(emitted_, 7);
  server_->Send(Ack(Token(7, 1, 5), 7));
  ASSERT_TRUE(server_->Await(Kind::kCompletion));
}

TEST_F(SessionTest, AFencedTaskThatWaitsForRoomStops) {
  readings_ = 10;
  Start(/*buffer_entries=*/2);
  Greet(5);
  server_->Send(Grant(Token(7, 1, 5)));
  EXPECT_TRUE(Eventually([&] { return emitted_ == 2; }));
  v1::ServerMessage fence;
  *fence.mutable_fenced()->mutable_token() = Token(7, 1, 5);
  server_->Send(fence);
  EXPECT_TRUE(Eventually([&] { return stopped_ == 1; }));
}

TEST_F(SessionTest, FencesItselfWhenTheServerFallsSilent) {
  allowed_ = 1;
  Start();
  ASSERT_TRUE(server_->Await(Kind::kHello));
  server_->Send(Welcome(5, /*lease_ms=*/300));
  server_->Send(Grant(Token(7, 1, 5)));
  EXPECT_EQ(AwaitReading(), 1);
  EXPECT_TRUE(Eventually([&] { return stopped_ == 1; }));
  // And it comes back with empty hands.
  const std::optional<v1::WorkerMessage> hello = server_->Await(Kind::kHello);
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->hello().held_size(), 0);
}

TEST_F(SessionTest, ComesBackToAServerThatWasAway) {
  Start();
  Greet(5);
  const int port = server_->port();
  server_.reset();
  std::this_thread::sleep_for(milliseconds(300));
  server_ = std::make_unique<FakeServer>(port);
  Greet(6);
  server_->Send(Grant(Token(7, 1, 6)));
  EXPECT_TRUE(server_->Await(Kind::kCompletion));
}

TEST_F(SessionTest, HeartbeatsComeWhileATaskRuns) {
  allowed_ = 1;
  Start();
  ASSERT_TRUE(server_->Await(Kind::kHello));
  server_->Send(Welcome(5, /*lease_ms=*/1200));
  server_->Send(Grant(Token(7, 1, 5)));
  EXPECT_EQ(AwaitReading(), 1);
  const std::optional<v1::WorkerMessage> heartbeat = server_->Await(Kind::kHeartbeat);
  ASSERT_TRUE(heartbeat);
  EXPECT_EQ(heartbeat->heartbeat().token().task(), 7);
  EXPECT_EQ(heartbeat->heartbeat().total(), 3);
  EXPECT_TRUE(server_->Await(Kind::kHeartbeat, milliseconds(600)));
}

TEST_F(SessionTest, FailuresSayWhetherAnotherWorkerCouldDoBetter) {
  failure_ = absl::FailedPreconditionError("prompt of 9000 tokens");
  Start();
  Greet(5);
  server_->Send(Grant(Token(7, 1, 5)));
  std::optional<v1::WorkerMessage> failure = server_->Await(Kind::kFailure);
  ASSERT_TRUE(failure);
  EXPECT_TRUE(failure->failure().permanent());
  EXPECT_EQ(failure->failure().cause(), "prompt of 9000 tokens");
  failure_ = absl::AbortedError("config.json changed");
  server_->Send(Grant(Token(8, 1, 5)));
  failure = server_->Await(Kind::kFailure);
  ASSERT_TRUE(failure);
  EXPECT_FALSE(failure->failure().permanent());
}

TEST_F(SessionTest, AnswersAHashRequestWhileATaskRuns) {
  allowed_ = 0;
  Start();
  Greet(5);
  server_->Send(Grant(Token(7, 1, 5)));
  v1::ServerMessage request;
  request.mutable_hash_request()->set_model("tiny");
  server_->Send(request);
  const std::optional<v1::WorkerMessage> hash = server_->Await(Kind::kWeightsHash);
  ASSERT_TRUE(hash);
  EXPECT_EQ(hash->weights_hash().weights_hash(), "abc");
}

TEST_F(SessionTest, DrainHandsBackAndEndsWithinItsGrace) {
  allowed_ = 1;
  Start();
  Greet(5);
  server_->Send(Grant(Token(7, 1, 5)));
  EXPECT_EQ(AwaitReading(), 1);
  session_->Drain();
  ASSERT_TRUE(server_->Await(Kind::kDraining));
  const std::optional<v1::WorkerMessage> back = server_->Await(Kind::kHandBack);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->hand_back().token().task(), 7);
  const auto began = std::chrono::steady_clock::now();
  running_.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(800));
}

TEST_F(SessionTest, SaysThatItStartedWhenTheServerKnowsIt) {
  Start();
  ASSERT_TRUE(server_->Await(Kind::kHello));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(started_)
      << "whoever waits for this would submit to a server that has not heard of the models";
  server_->Send(Welcome(5));
  EXPECT_TRUE(Eventually([&] { return started_.load(); }));
}

TEST_F(SessionTest, GreetsAgainWhenOtherModelsLieThereAndKeepsItsTask) {
  allowed_ = 1;
  Start();
  Greet(5);
  server_->Send(Grant(Token(7, 1, 5)));
  EXPECT_EQ(AwaitReading(), 1);
  EXPECT_FALSE(server_->Await(Kind::kHello, milliseconds(300))) << "nothing changed";
  {
    MutexLock lock(&models_mutex_);
    models_ = "two";
  }
  const std::optional<v1::WorkerMessage> hello = server_->Await(Kind::kHello);
  ASSERT_TRUE(hello);
  ASSERT_EQ(hello->hello().held_size(), 1);
  EXPECT_EQ(hello->hello().held(0).token().task(), 7);
  server_->Send(Verdict(Welcome(6), Token(7, 1, 5), Token(7, 1, 6), /*keep=*/true, /*resume_after=*/1));
  allowed_ = 3;
  EXPECT_EQ(AwaitReading(), 2);
  EXPECT_TRUE(server_->Await(Kind::kCompletion));
  EXPECT_EQ(stopped_, 0);
}

TEST_F(SessionTest, AFolderThatStillChangesIsNotAnnounced) {
  Start();
  Greet(5);
  const auto until = std::chrono::steady_clock::now() + milliseconds(500);
  for (int i = 0; std::chrono::steady_clock::now() < until; ++i) {
    {
      MutexLock lock(&models_mutex_);
      models_ = std::to_string(i);
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_FALSE(server_->Await(Kind::kHello, milliseconds(1)));
  EXPECT_TRUE(server_->Await(Kind::kHello));
}

TEST_F(SessionTest, DrainsWithoutAServer) {
  server_.reset();
  SessionOptions options;
  options.machine.drain_grace = milliseconds(100);
  options.channel = [] { return MakeChannel("127.0.0.1:1", grpc::InsecureChannelCredentials()); };
  options.hello = [] { return v1::Hello(); };
  Session session(std::move(options));
  bool started = false;
  std::thread running([&] { session.Run([&] { started = true; }); });
  std::this_thread::sleep_for(milliseconds(50));
  session.Drain();
  running.join();
  EXPECT_TRUE(started);
}

}  // namespace
}  // namespace ropelab::session
