#include "worker/session/session_machine.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/session/server_messages.h"

namespace ropelab::session {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = SessionMachine::Time;

void Keep(v1::ServerMessage& welcome, const v1::LeaseToken& old_token, const v1::LeaseToken& new_token,
          int64_t after) {
  v1::LeaseVerdict* verdict = welcome.mutable_welcome()->add_held();
  *verdict->mutable_old_token() = old_token;
  *verdict->mutable_new_token() = new_token;
  verdict->set_keep(true);
  verdict->set_resume_after(after);
}

BufferedEntry Reading(int64_t work, int64_t sequence) {
  BufferedEntry entry;
  entry.work = work;
  entry.sequence = sequence;
  entry.message.mutable_reading()->set_sequence(sequence);
  entry.message.mutable_reading()->set_body("body");
  return entry;
}

v1::Completion CompletionAt(int64_t sequence) {
  v1::Completion completion;
  completion.set_sequence(sequence);
  return completion;
}

class SessionMachineTest : public testing::Test {
 protected:
  void Connect(v1::ServerMessage welcome) {
    hello_ = v1::Hello();
    machine_.Greet(&hello_, now_);
    EXPECT_EQ(machine_.OnMessage(welcome, now_).close, "");
  }
  // Grants a task and starts it; returns the machine's number of it.
  int64_t StartTask(const v1::LeaseToken& token, int64_t resume_after = 0) {
    machine_.OnMessage(Grant(token, resume_after), now_);
    return machine_.StartNext()->work;
  }
  bool Takes(int64_t work, int64_t sequence) {
    return machine_.Offer(Reading(work, sequence)) == SessionMachine::Admission::kTaken;
  }

  Time now_ = seconds(100);
  v1::Hello hello_;
  SessionMachine machine_{SessionMachine::Options{.buffer = {.entries = 4, .bytes = 1 << 20}}};
};

TEST_F(SessionMachineTest, WalksThroughItsStates) {
  EXPECT_EQ(machine_.state(), SessionState::kConnecting);
  machine_.Greet(&hello_, now_);
  EXPECT_EQ(machine_.state(), SessionState::kGreeting);
  machine_.OnMessage(Welcome(1), now_);
  EXPECT_EQ(machine_.state(), SessionState::kIdle);
  const int64_t work = StartTask(Token(7, 1, 1));
  EXPECT_EQ(machine_.state(), SessionState::kMeasuring);
  machine_.SetLoading(work, true);
  EXPECT_EQ(machine_.state(), SessionState::kLoading);
  machine_.SetLoading(work, false);
  machine_.Complete(work, CompletionAt(1));
  machine_.Released(work);
  EXPECT_EQ(machine_.state(), SessionState::kIdle);
  machine_.Disconnected();
  EXPECT_EQ(machine_.state(), SessionState::kConnecting);
  machine_.Drain(now_);
  EXPECT_EQ(machine_.state(), SessionState::kDraining);
}

TEST_F(SessionMachineTest, SaysNothingBeforeWelcome) {
  machine_.Greet(&hello_, now_);
  machine_.QueueHeartbeat({}, 0);
  EXPECT_FALSE(machine_.NextToSend().has_value());
}

TEST_F(SessionMachineTest, ClosesAStreamThatIsNotWelcomedInTime) {
  machine_.Greet(&hello_, now_);
  EXPECT_EQ(machine_.Tick(now_ + seconds(9)).close, "");
  EXPECT_NE(machine_.Tick(now_ + seconds(11)).close, "");
}

TEST_F(SessionMachineTest, RefusesAProtocolItDoesNotSpeak) {
  machine_.Greet(&hello_, now_);
  v1::ServerMessage welcome = Welcome(1);
  welcome.mutable_welcome()->set_protocol(9);
  EXPECT_NE(machine_.OnMessage(welcome, now_).close, "");
  EXPECT_FALSE(machine_.connected());
}

TEST_F(SessionMachineTest, IsFullAtItsBoundAndTakesMoreOnceAcknowledged) {
  Connect(Welcome(1));
  const int64_t work = StartTask(Token(7, 1, 1));
  for (int64_t sequence = 1; sequence <= 4; ++sequence) EXPECT_TRUE(Takes(work, sequence));
  BufferedEntry fifth = Reading(work, 5);
  EXPECT_EQ(machine_.Offer(std::move(fifth)), SessionMachine::Admission::kFull);
  EXPECT_EQ(fifth.message.reading().body(), "body");  // left as it was
  machine_.OnMessage(Ack(Token(7, 1, 1), 2), now_);
  EXPECT_EQ(machine_.Offer(std::move(fifth)), SessionMachine::Admission::kTaken);
}

TEST_F(SessionMachineTest, ReplaysWhatWasNotCommittedUnderTheNewToken) {
  Connect(Welcome(1));
  const int64_t work = StartTask(Token(7, 1, 1));
  for (int64_t sequence = 1; sequence <= 3; ++sequence) {
    ASSERT_TRUE(Takes(work, sequence));
    EXPECT_EQ(machine_.NextToSend()->reading().token().session_epoch(), 1);
  }
  machine_.OnMessage(Ack(Token(7, 1, 1), 1), now_);
  machine_.Disconnected();

  v1::ServerMessage welcome = Welcome(2);
  Keep(welcome, Token(7, 1, 1), Token(7, 1, 2), 2);
  Connect(welcome);
  ASSERT_EQ(hello_.held_size(), 1);
  EXPECT_EQ(hello_.held(0).token().session_epoch(), 1);
  EXPECT_EQ(hello_.held(0).last_sequence_sent(), 3);
  const std::optional<v1::WorkerMessage> replayed = machine_.NextToSend();
  ASSERT_TRUE(replayed && replayed->has_reading());
  EXPECT_EQ(replayed->reading().sequence(), 3);
  EXPECT_EQ(replayed->reading().token().session_epoch(), 2);
  EXPECT_FALSE(machine_.NextToSend().has_value());
}

TEST_F(SessionMachineTest, SendsTheCompletionAgainUntilItIsAcknowledged) {
  Connect(Welcome(1));
  const int64_t work = StartTask(Token(7, 1, 1));
  Takes(work, 1);
  machine_.Complete(work, CompletionAt(2));
  machine_.Released(work);
  machine_.NextToSend();
  EXPECT_TRUE(machine_.NextToSend()->has_completion());
  machine_.OnMessage(Ack(Token(7, 1, 1), 1), now_);
  EXPECT_EQ(machine_.held(), 1u);
  machine_.Disconnected();

  v1::ServerMessage welcome = Welcome(2);
  Keep(welcome, Token(7, 1, 1), Token(7, 1, 2), 1);
  Connect(welcome);
  const std::optional<v1::WorkerMessage> again = machine_.NextToSend();
  ASSERT_TRUE(again && again->has_completion());
  EXPECT_EQ(again->completion().token().session_epoch(), 2);
  machine_.OnMessage(Ack(Token(7, 1, 2), 2), now_);
  EXPECT_EQ(machine_.held(), 0u);
}

TEST_F(SessionMachineTest, SkipsReadingsThatAnEarlierAttemptCommitted) {
  Connect(Welcome(1));
  const int64_t work = StartTask(Token(7, 2, 1), /*resume_after=*/3);
  for (int64_t sequence = 1; sequence <= 4; ++sequence) EXPECT_TRUE(Takes(work, sequence));
  EXPECT_EQ(machine_.NextToSend()->reading().sequence(), 4);
  EXPECT_FALSE(machine_.NextToSend().has_value());
}

TEST_F(SessionMachineTest, DropsWhatIsRevokedFencedOrCancelled) {
  Connect(Welcome(1));
  const int64_t revoked = StartTask(Token(7, 1, 1));
  Takes(revoked, 1);
  machine_.Disconnected();
  Connect(Welcome(2));  // no verdict counts as a revocation
  EXPECT_FALSE(machine_.Progress(revoked, 1, 2));
  EXPECT_EQ(machine_.Offer(Reading(revoked, 2)), SessionMachine::Admission::kGone);
  EXPECT_EQ(machine_.buffer().entries(), 0u);
  EXPECT_TRUE(machine_.busy());  // until the measurement has noticed
  machine_.Released(revoked);

  const int64_t fenced = StartTask(Token(8, 1, 2));
  v1::ServerMessage fence;
  *fence.mutable_fenced()->mutable_token() = Token(8, 1, 2);
  machine_.OnMessage(fence, now_);
  EXPECT_FALSE(machine_.Progress(fenced, 1, 2));
  machine_.Released(fenced);

  const int64_t cancelled = StartTask(Token(9, 1, 2));
  v1::ServerMessage cancel;
  *cancel.mutable_cancel()->mutable_token() = Token(9, 1, 2);
  machine_.OnMessage(cancel, now_);
  EXPECT_FALSE(machine_.Progress(cancelled, 1, 2));
  EXPECT_FALSE(machine_.NextToSend().has_value());
}

TEST_F(SessionMachineTest, AnOlderAttemptsFenceDoesNotTouchTheLease) {
  Connect(Welcome(1));
  const int64_t work = StartTask(Token(7, 2, 1));
  v1::ServerMessage fence;
  *fence.mutable_fenced()->mutable_token() = Token(7, 1, 1);
  machine_.OnMessage(fence, now_);
  EXPECT_TRUE(machine_.Progress(work, 1, 2));
}

TEST_F(SessionMachineTest, StopsByItselfAfterALeaseTimeWithoutAWord) {
  Connect(Welcome(1, 3000));
  const int64_t work = StartTask(Token(7, 1, 1));
  machine_.Disconnected();
  machine_.Tick(now_ + milliseconds(2999));
  EXPECT_TRUE(machine_.Progress(work, 1, 2));
  machine_.Tick(now_ + milliseconds(3001));
  EXPECT_FALSE(machine_.Progress(work, 1, 2));
  EXPECT_EQ(machine_.held(), 0u);
}

TEST_F(SessionMachineTest, ASilentStreamIsClosedAfterALeaseTimeAndAnyMessageResetsIt) {
  Connect(Welcome(1, 3000));
  v1::ServerMessage reply;
  reply.mutable_heartbeat_reply();
  machine_.OnMessage(reply, now_ + milliseconds(2000));
  EXPECT_EQ(machine_.Tick(now_ + milliseconds(4900)).close, "");
  EXPECT_NE(machine_.Tick(now_ + milliseconds(5100)).close, "");
}

TEST_F(SessionMachineTest, HandsBackWhatItDroppedWhileTheServerDecidedToKeepIt) {
  Connect(Welcome(1, 3000));
  StartTask(Token(7, 1, 1));
  machine_.Disconnected();
  machine_.Greet(&hello_, now_);
  machine_.Tick(now_ + milliseconds(3001));
  v1::ServerMessage welcome = Welcome(2);
  Keep(welcome, Token(7, 1, 1), Token(7, 1, 2), 0);
  machine_.OnMessage(welcome, now_ + milliseconds(3002));
  const std::optional<v1::WorkerMessage> message = machine_.NextToSend();
  ASSERT_TRUE(message && message->has_hand_back());
  EXPECT_EQ(message->hand_back().token().session_epoch(), 2);
}

TEST_F(SessionMachineTest, AcceptsALeaseFetchedAheadWhenItBeginsAndAfterTheReadingsBeforeIt) {
  Connect(Welcome(1));
  const int64_t first = StartTask(Token(7, 1, 1));
  machine_.OnMessage(Grant(Token(8, 1, 1), 0, /*ahead=*/true), now_);
  EXPECT_FALSE(machine_.StartNext().has_value());  // one at a time
  Takes(first, 1);
  machine_.Complete(first, CompletionAt(2));
  machine_.Released(first);
  const std::optional<SessionMachine::Start> second = machine_.StartNext();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->grant.token().task(), 8);
  Takes(second->work, 1);
  EXPECT_TRUE(machine_.NextToSend()->has_reading());
  EXPECT_TRUE(machine_.NextToSend()->has_completion());
  EXPECT_EQ(machine_.NextToSend()->accepted().token().task(), 8);
  EXPECT_EQ(machine_.NextToSend()->reading().token().task(), 8);
}

TEST_F(SessionMachineTest, HandsBackAGrantBeyondOneFetchedAhead) {
  Connect(Welcome(1));
  StartTask(Token(7, 1, 1));
  machine_.OnMessage(Grant(Token(8, 1, 1), 0, true), now_);
  machine_.OnMessage(Grant(Token(9, 1, 1), 0, true), now_);
  EXPECT_EQ(machine_.NextToSend()->hand_back().token().task(), 9);
}

TEST_F(SessionMachineTest, DrainingSaysSoHandsBackWhatWaitsAndLetsTheRunningTaskFinish) {
  Connect(Welcome(1));
  const int64_t work = StartTask(Token(7, 1, 1));
  machine_.OnMessage(Grant(Token(8, 1, 1), 0, true), now_);
  machine_.Drain(now_);
  EXPECT_TRUE(machine_.NextToSend()->has_draining());
  EXPECT_EQ(machine_.NextToSend()->hand_back().token().task(), 8);
  machine_.OnMessage(Grant(Token(9, 1, 1)), now_);
  EXPECT_EQ(machine_.NextToSend()->hand_back().token().task(), 9);
  EXPECT_TRUE(machine_.Progress(work, 1, 2));
  machine_.Complete(work, CompletionAt(1));
  machine_.Released(work);
  EXPECT_TRUE(machine_.NextToSend()->has_completion());
  EXPECT_FALSE(machine_.Drained());
  machine_.OnMessage(Ack(Token(7, 1, 1), 1), now_);
  EXPECT_TRUE(machine_.Drained());
}

TEST_F(SessionMachineTest, DrainingHandsTheRunningTaskBackWhenItsGraceIsOver) {
  Connect(Welcome(1));
  const int64_t work = StartTask(Token(7, 1, 1));
  Takes(work, 1);
  v1::ServerMessage drain;
  drain.mutable_drain();
  machine_.OnMessage(drain, now_);
  machine_.Tick(now_ + milliseconds(1900));
  EXPECT_TRUE(machine_.Progress(work, 1, 2));
  machine_.Tick(now_ + milliseconds(2100));
  EXPECT_FALSE(machine_.Progress(work, 1, 2));
  EXPECT_TRUE(machine_.NextToSend()->has_draining());
  EXPECT_EQ(machine_.NextToSend()->reading().sequence(), 1);  // kept by the server for the next attempt
  EXPECT_EQ(machine_.NextToSend()->hand_back().token().task(), 7);
  EXPECT_TRUE(machine_.Drained());
}

TEST_F(SessionMachineTest, AFailureFollowsItsReadingsAndEndsTheLease) {
  Connect(Welcome(1));
  const int64_t work = StartTask(Token(7, 1, 1));
  Takes(work, 1);
  machine_.Fail(work, "NaN in layers.0.mlp", true, {"line"});
  machine_.Released(work);
  EXPECT_TRUE(machine_.NextToSend()->has_reading());
  const std::optional<v1::WorkerMessage> failure = machine_.NextToSend();
  ASSERT_TRUE(failure && failure->has_failure());
  EXPECT_TRUE(failure->failure().permanent());
  EXPECT_EQ(failure->failure().cause(), "NaN in layers.0.mlp");
  EXPECT_EQ(failure->failure().token().task(), 7);
  EXPECT_EQ(machine_.held(), 0u);
}

TEST_F(SessionMachineTest, HeartbeatsCarryProgressPhaseAndAtMostFiftyLines) {
  Connect(Welcome(1));
  const int64_t work = StartTask(Token(7, 1, 1));
  machine_.Progress(work, 3, 8);
  machine_.QueueHeartbeat(std::vector<std::string>(40, "old"), 1);
  machine_.QueueHeartbeat(std::vector<std::string>(40, "new"), 2);
  const v1::Heartbeat heartbeat = machine_.NextToSend()->heartbeat();
  EXPECT_EQ(heartbeat.token().task(), 7);
  EXPECT_EQ(heartbeat.done(), 3);
  EXPECT_EQ(heartbeat.total(), 8);
  EXPECT_EQ(heartbeat.phase(), "measuring");
  EXPECT_EQ(heartbeat.memory_used_bytes(), 2);
  ASSERT_EQ(heartbeat.log_tail_size(), 50);
  EXPECT_EQ(heartbeat.log_tail(0), "old");
  EXPECT_EQ(heartbeat.log_tail(49), "new");
  EXPECT_FALSE(machine_.NextToSend().has_value());
}

TEST_F(SessionMachineTest, PassesHashRequestsOnAndSendsTheAnswer) {
  Connect(Welcome(1));
  v1::ServerMessage request;
  request.mutable_hash_request()->set_model("tiny");
  const SessionMachine::Reaction reaction = machine_.OnMessage(request, now_);
  ASSERT_EQ(reaction.hash.size(), 1u);
  EXPECT_EQ(reaction.hash[0], "tiny");
  v1::WeightsHash hash;
  hash.set_model("tiny");
  machine_.QueueWeightsHash(hash);
  EXPECT_EQ(machine_.NextToSend()->weights_hash().model(), "tiny");
}

}  // namespace
}  // namespace ropelab::session
