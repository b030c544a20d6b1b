#include "tests/unit/store/store_fixture.h"

namespace ropelab::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LeasesTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    experiment_ = Submit("r1");
    Plan(experiment_, {"k1"});
    Pin(experiment_, "cls");
    task_ = Tasks(experiment_)[0].id;
  }
  bool End(const Token& token, const AttemptEnd& end) {
    return Write([&](Connection& db) { return EndAttempt(db, token, end); });
  }
  int64_t Divergences() {
    return Read([&](Connection& db) { return DivergencesOf(db, experiment_); });
  }
  std::vector<std::string> Bodies() {
    std::vector<std::string> bodies;
    const absl::Status status = store_->Read([&](Connection& db) {
      return ForEachReading(db, store_->artifacts(), task_, [&](int64_t, const std::string& body) {
        bodies.push_back(body);
        return absl::OkStatus();
      });
    });
    EXPECT_TRUE(status.ok()) << status;
    return bodies;
  }

  int64_t experiment_ = 0;
  int64_t task_ = 0;
};

TEST_F(LeasesTest, SessionEpochsAreNeverGivenTwice) {
  const auto next = [&] { return Write([](Connection& db) { return NextSessionEpoch(db); }); };
  const int64_t first = next();
  EXPECT_EQ(next(), first + 1);
  Reopen();
  EXPECT_EQ(next(), first + 2);
}

TEST_F(LeasesTest, ATaskHasOneOpenAttempt) {
  const Token token = Lease(task_);
  EXPECT_EQ(token.attempt, 1);
  EXPECT_EQ(Task(task_).state, "leased");
  const absl::Status second = WriteStatus([&](Connection& db) {
    GrantFacts facts;
    facts.task = task_;
    facts.session_epoch = 8;
    facts.numerics_class = "cls";
    return OpenAttempt(db, facts).status();
  });
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  const std::vector<OpenAttemptRow> open = Read([](Connection& db) { return OpenAttempts(db); });
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].token.task, task_);
  EXPECT_EQ(open[0].token.session_epoch, 7);
  EXPECT_EQ(open[0].worker, "w1");
}

TEST_F(LeasesTest, AWorkerOfAnotherClassGetsNothing) {
  const absl::Status status = WriteStatus([&](Connection& db) {
    GrantFacts facts;
    facts.task = task_;
    facts.numerics_class = "other";
    return OpenAttempt(db, facts).status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cls"));
}

TEST_F(LeasesTest, ReadingsAreStoredOnceAndInOrder) {
  const Token token = Lease(task_);
  EXPECT_EQ(Commit(token, 2, kBetaSha, "beta"), Committed::kOutOfOrder);
  EXPECT_EQ(Commit(token, 1, kAlphaSha, "alpha"), Committed::kStored);
  EXPECT_EQ(Commit(token, 1, kAlphaSha, "alpha"), Committed::kDuplicate);
  EXPECT_EQ(Commit(token, 2, kBetaSha, "beta"), Committed::kStored);
  EXPECT_EQ(Task(task_).readings, 2);
  EXPECT_THAT(Bodies(), ElementsAre("alpha", "beta"));
}

TEST_F(LeasesTest, ADivergentReadingIsKeptAsideAndTheFirstStays) {
  const Token token = Lease(task_);
  Commit(token, 1, kAlphaSha, "alpha");
  EXPECT_EQ(Commit(token, 1, kBetaSha, "beta"), Committed::kDivergent);
  EXPECT_EQ(Commit(token, 1, kBetaSha, "beta"), Committed::kDivergent);
  EXPECT_EQ(Divergences(), 1);
  EXPECT_THAT(Bodies(), ElementsAre("alpha"));
}

TEST_F(LeasesTest, ABodyThatIsNotWhatItsDigestSaysIsRefused) {
  const Token token = Lease(task_);
  const absl::Status status = WriteStatus([&](Connection& db) {
    return CommitReading(db, store_->artifacts(), token, 1, kAlphaSha, "beta", 1).status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Task(task_).readings, 0);
}

TEST_F(LeasesTest, ALargeBodyBecomesAFile) {
  const Token token = Lease(task_);
  const std::string body(70000, 'x');
  const std::string sha256 = "bca09f4a757d5571c7d9f3341d4301f3c391c090826acc1a3013c6bcb7c01722";
  EXPECT_EQ(Commit(token, 1, sha256, body), Committed::kStored);
  EXPECT_TRUE(store_->artifacts().Has(sha256));
  EXPECT_EQ(Number("SELECT COUNT(*) FROM readings WHERE body IS NULL"), 1);
  EXPECT_THAT(Bodies(), ElementsAre(body));
}

TEST_F(LeasesTest, AnOldSessionIsFenced) {
  const Token token = Lease(task_);
  Token old = token;
  old.session_epoch = 6;
  EXPECT_EQ(Commit(old, 1, kAlphaSha, "alpha"), Committed::kFenced);
  EXPECT_EQ(Complete(old, 1, kEmptySha), Committed::kFenced);
  EXPECT_FALSE(End(old, {.outcome = "failed"}));
  EXPECT_EQ(Task(task_).readings, 0);
  EXPECT_EQ(Task(task_).state, "leased");
}

TEST_F(LeasesTest, AnEarlierAttemptIsFencedAndItsReadingsStay) {
  const Token first = Lease(task_);
  Commit(first, 1, kAlphaSha, "alpha");
  EXPECT_TRUE(End(first, {.outcome = "lost", .cause = "silent", .charged = true, .now_us = 5000}));
  EXPECT_EQ(Commit(first, 2, kBetaSha, "beta"), Committed::kFenced);
  const GrantedLease second = Write([&](Connection& db) {
    GrantFacts facts;
    facts.task = task_;
    facts.session_epoch = 8;
    facts.worker = "w2";
    facts.numerics_class = "cls";
    return OpenAttempt(db, facts);
  });
  EXPECT_EQ(second.token.attempt, 2);
  EXPECT_EQ(second.resume_after, 1);
  EXPECT_EQ(Commit(first, 1, kAlphaSha, "alpha"), Committed::kFenced);
  EXPECT_EQ(Commit(second.token, 2, kBetaSha, "beta"), Committed::kStored);
  EXPECT_EQ(Complete(second.token, 3, kAlphaBetaDigest), Committed::kStored);
  EXPECT_EQ(Task(task_).charged_attempts, 1);
  const std::vector<AttemptRow> attempts = Read([&](Connection& db) { return AttemptsOf(db, task_); });
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0].outcome, "lost");
  EXPECT_EQ(attempts[0].cause, "silent");
  EXPECT_EQ(attempts[0].ended_us, 5000);
  EXPECT_EQ(attempts[1].outcome, "finished");
  EXPECT_EQ(attempts[1].worker, "w2");
  EXPECT_EQ(attempts[1].device_ms, 12);
}

TEST_F(LeasesTest, WhoCommittedTheLastReadingIsKnown) {
  const auto committed_any = [&](const Token& token) {
    return Read([&](Connection& db) { return AttemptCommittedAny(db, token); });
  };
  const Token first = Lease(task_);
  EXPECT_FALSE(committed_any(first));
  Commit(first, 1, kAlphaSha, "alpha");
  EXPECT_TRUE(committed_any(first));
  End(first, {.outcome = "lost"});
  EXPECT_FALSE(committed_any(Lease(task_)));
}

TEST_F(LeasesTest, CompletionNeedsEveryReadingAndTheirDigest) {
  const Token token = Lease(task_);
  Commit(token, 1, kAlphaSha, "alpha");
  EXPECT_EQ(Complete(token, 3, kAlphaBetaDigest), Committed::kOutOfOrder);
  Commit(token, 2, kBetaSha, "beta");
  EXPECT_EQ(Complete(token, 3, kAlphaSha), Committed::kDivergent);
  EXPECT_EQ(Task(task_).state, "leased");
  EXPECT_EQ(Complete(token, 2, kAlphaSha), Committed::kDivergent);
  EXPECT_EQ(Complete(token, 3, kAlphaBetaDigest), Committed::kStored);
  const TaskRow task = Task(task_);
  EXPECT_EQ(task.state, "finished");
  EXPECT_EQ(task.readings, 2);
  EXPECT_EQ(task.digest, kAlphaBetaDigest);
  EXPECT_EQ(task.fed_ids_digest, "fed");
  EXPECT_EQ(Divergences(), 2);
  EXPECT_THAT(Read([](Connection& db) { return OpenAttempts(db); }), IsEmpty());
}

TEST_F(LeasesTest, ATaskWithoutReadingsFinishesWithTheDigestOfNothing) {
  EXPECT_EQ(Complete(Lease(task_), 1, kEmptySha), Committed::kStored);
  EXPECT_EQ(Task(task_).state, "finished");
}

TEST_F(LeasesTest, WhatComesLateToAFinishedTaskIsRecognized) {
  const Token token = Finish(task_);
  EXPECT_EQ(Complete(token, 3, kAlphaBetaDigest), Committed::kDuplicate);
  EXPECT_EQ(Complete({task_, 99, 1}, 3, kAlphaBetaDigest), Committed::kDuplicate);
  EXPECT_EQ(Complete(token, 3, kAlphaSha), Committed::kDivergent);
  EXPECT_EQ(Complete({task_, 99, 1}, 3, kAlphaSha), Committed::kFenced);
  EXPECT_EQ(Commit({task_, 99, 1}, 2, kBetaSha, "beta"), Committed::kDuplicate);
  EXPECT_EQ(Commit(token, 2, kGammaSha, "gamma"), Committed::kDivergent);
  EXPECT_EQ(Commit({task_, 99, 1}, 2, kGammaSha, "gamma"), Committed::kFenced);
  EXPECT_EQ(Commit(token, 3, kGammaSha, "gamma"), Committed::kFenced);
  EXPECT_EQ(Divergences(), 2);
  EXPECT_EQ(Task(task_).digest, kAlphaBetaDigest);
}

TEST_F(LeasesTest, ATaskThatIsNotThereIsFenced) {
  EXPECT_EQ(Commit({12345, 1, 7}, 1, kAlphaSha, "alpha"), Committed::kFenced);
  EXPECT_EQ(Complete({12345, 1, 7}, 1, kEmptySha), Committed::kFenced);
}

TEST_F(LeasesTest, AHeldLeaseGoesOnUnderANewSession) {
  const Token old = Lease(task_);
  Commit(old, 1, kAlphaSha, "alpha");
  const GrantedLease adopted = Write([&](Connection& db) { return AdoptAttempt(db, old, 9); });
  EXPECT_EQ(adopted.token.attempt, old.attempt);
  EXPECT_EQ(adopted.token.session_epoch, 9);
  EXPECT_EQ(adopted.resume_after, 1);
  EXPECT_EQ(Commit(old, 2, kBetaSha, "beta"), Committed::kFenced);
  // The answer with epoch 9 got lost: the worker comes with its old token once more.
  const GrantedLease again = Write([&](Connection& db) { return AdoptAttempt(db, old, 10); });
  EXPECT_EQ(Commit(again.token, 2, kBetaSha, "beta"), Committed::kStored);
  EXPECT_EQ(Read([](Connection& db) { return OpenAttempts(db); }).at(0).token.session_epoch, 10);
}

TEST_F(LeasesTest, ALeaseThatEndedIsNotAdopted) {
  const Token old = Lease(task_);
  End(old, {.outcome = "lost"});
  EXPECT_EQ(WriteStatus([&](Connection& db) { return AdoptAttempt(db, old, 9).status(); }).code(),
            absl::StatusCode::kFailedPrecondition);
  const Token next = Lease(task_, "cls", 8);
  EXPECT_EQ(WriteStatus([&](Connection& db) { return AdoptAttempt(db, old, 9).status(); }).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Task(task_).attempt, next.attempt);
}

TEST_F(LeasesTest, AFailedAttemptLeavesItsCause) {
  EXPECT_TRUE(End(Lease(task_),
                  {.outcome = "failed", .cause = "NaN weights", .charged = true, .next_state = "failed"}));
  EXPECT_EQ(Task(task_).state, "failed");
  EXPECT_EQ(Task(task_).cause, "NaN weights");
}

}  // namespace
}  // namespace ropelab::store
