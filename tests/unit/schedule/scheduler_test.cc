#include "server/schedule/scheduler.h"

#include "gtest/gtest.h"

namespace ropelab::schedule {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Policy PolicyForTests() {
  Policy policy;
  policy.times = {30 * kSecond, 600 * kSecond};
  return policy;
}

class SchedulerTest : public testing::Test {
 protected:
  void Worker(int64_t epoch, const std::string& worker, const std::string& numerics_class = "C",
              std::vector<SessionModel> models = {{"m", "h"}}) {
    scheduler_.OpenSession({epoch, worker, "i", numerics_class, std::move(models)}, now_);
  }
  void Experiment(int64_t id, const std::vector<int64_t>& tasks, Priority priority = Priority::kNormal,
                  const std::string& owner = "ada", const std::string& numerics_class = "C") {
    scheduler_.AddExperiment({id, priority, owner, numerics_class});
    std::vector<TaskFacts> facts;
    for (const int64_t task : tasks) {
      facts.push_back({task, static_cast<int64_t>(facts.size()), "slash_profile", "m", "h", 0});
    }
    scheduler_.SetTasks(id, facts);
  }
  // The next grant's task, committed at once; 0: none.
  int64_t Grant() {
    const auto decision = scheduler_.Next(now_);
    if (!decision.has_value() || decision->kind != Decision::Kind::kGrant) {
      return 0;
    }
    last_ = *decision;
    scheduler_.leases().Confirm(*scheduler_.leases().Find(decision->task), 1, now_);
    return decision->task;
  }
  int64_t now_ = kSecond;
  Decision last_;
  Scheduler scheduler_{PolicyForTests()};
};

TEST_F(SchedulerTest, AWorkerTooSmallForTheWeightsIsPassedOverWhileAnotherHasRoom) {
  const auto join = [&](int64_t epoch, const std::string& worker, int64_t memory) {
    SessionFacts facts{epoch, worker, "i", "C", {{"m", "h"}}};
    facts.memory_bytes = memory;
    scheduler_.OpenSession(std::move(facts), now_);
  };
  const auto want = [&](int64_t id, int64_t task, int64_t bytes) {
    scheduler_.AddExperiment({id, Priority::kNormal, "ada", "C"});
    TaskFacts facts{task, 0, "slash_profile", "m", "h", 0};
    facts.weights_bytes = bytes;
    scheduler_.SetTasks(id, {facts});
  };
  join(1, "small", 100);
  join(2, "large", 1000);
  want(10, 5, 101);
  EXPECT_EQ(Grant(), 5);
  EXPECT_EQ(last_.epoch, 2);
  want(11, 6, 101);
  EXPECT_EQ(Grant(), 0) << "the large one is busy, the small one cannot";
  EXPECT_EQ(scheduler_.WhyWaiting(11, now_).kind, Waiting::Kind::kBusy);
  want(12, 7, 100);
  EXPECT_EQ(Grant(), 7);
  EXPECT_EQ(last_.epoch, 1);
  scheduler_.TaskDone(7, now_);
  scheduler_.TaskDone(5, now_);
  EXPECT_EQ(Grant(), 6);
  EXPECT_EQ(last_.epoch, 2);
  scheduler_.TaskDone(6, now_);
  // One that is still hashing may turn out to hold them.
  scheduler_.OpenSession({3, "hashing", "i", "C", {{"m", ""}}}, now_);
  want(14, 9, 1001);
  EXPECT_EQ(Grant(), 0);
  scheduler_.AddModel(3, {"m", "h"});
  EXPECT_EQ(Grant(), 9);
  EXPECT_EQ(last_.epoch, 3);
  scheduler_.TaskDone(9, now_);
  scheduler_.CloseSession(3, now_);
  // None can: one of them says so, with the figures.
  want(13, 8, 1001);
  EXPECT_EQ(Grant(), 8);
}

TEST_F(SchedulerTest, GrantsTasksInPlanOrderOneRunningAndOneAhead) {
  Worker(1, "w");
  Experiment(10, {5, 3, 4});
  EXPECT_EQ(Grant(), 5);
  EXPECT_FALSE(last_.ahead);
  EXPECT_EQ(Grant(), 3);
  EXPECT_TRUE(last_.ahead);
  EXPECT_EQ(Grant(), 0);
  scheduler_.TaskDone(5, now_);
  EXPECT_EQ(Grant(), 0) << "the one ahead is not accepted yet";
  scheduler_.leases().Renew(*scheduler_.leases().Find(3), now_);
  EXPECT_EQ(Grant(), 4);
  EXPECT_TRUE(last_.ahead);
}

TEST_F(SchedulerTest, IdleWorkersComeBeforeFetchingAheadAndTheTailIsNotHoarded) {
  Worker(1, "a");
  Worker(2, "b");
  Experiment(10, {1, 2, 3});
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(last_.epoch, 1);
  EXPECT_EQ(Grant(), 2);
  EXPECT_EQ(last_.epoch, 2);
  EXPECT_EQ(Grant(), 0) << "one task for two workers is left to whoever is free first";
}

TEST_F(SchedulerTest, PriorityClassIsStrict) {
  Experiment(10, {1}, Priority::kBatch);
  Experiment(11, {2}, Priority::kNormal);
  Experiment(12, {3}, Priority::kInteractive);
  Worker(1, "a");
  EXPECT_EQ(Grant(), 3);
  scheduler_.TaskDone(3, now_);
  EXPECT_EQ(Grant(), 2);
  scheduler_.TaskDone(2, now_);
  EXPECT_EQ(Grant(), 1);
}

TEST_F(SchedulerTest, WhoeverUsedLeastComesFirstAndThenWhoeverSubmittedFirst) {
  Worker(1, "a");
  Experiment(10, {1, 2}, Priority::kNormal, "ada");
  Experiment(11, {3}, Priority::kNormal, "bob");
  EXPECT_EQ(Grant(), 1) << "nobody used anything: submission order";
  now_ += 20 * kSecond;
  EXPECT_EQ(Grant(), 3) << "ada's running task counts";
}

TEST_F(SchedulerTest, AnUnpinnedExperimentIsPinnedToTheClassOfAWorkerThatCouldRunIt) {
  Worker(1, "a", "X", {});
  Worker(2, "b", "Y");
  Experiment(10, {1}, Priority::kNormal, "ada", "");
  auto decision = scheduler_.Next(now_);
  ASSERT_TRUE(decision.has_value());
  EXPECT_EQ(decision->kind, Decision::Kind::kPin);
  EXPECT_EQ(decision->numerics_class, "Y");
  EXPECT_FALSE(scheduler_.Next(now_).has_value()) << "nothing moves while the pin is on its way";
  scheduler_.Pinned(10, "Y");
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(last_.epoch, 2);
}

TEST_F(SchedulerTest, OnlyWorkersOfTheClassWithTheWeightsAndNotDrainingAreEligible) {
  Worker(1, "other class", "D");
  Worker(2, "other weights", "C", {{"m", "g"}});
  Worker(3, "draining");
  scheduler_.DrainSession(3);
  Experiment(10, {1});
  EXPECT_EQ(Grant(), 0);
  scheduler_.AddModel(2, {"m2", "h"});
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(last_.epoch, 2);
}

TEST_F(SchedulerTest, ATaskWithoutWeightsNeedsItsTokenizerAlone) {
  scheduler_.AddExperiment({10, Priority::kNormal, "ada", "C"});
  scheduler_.SetTasks(10, {{1, 0, "text_lengths", "m", "", 0, "t"}, {2, 1, "slash_profile", "m", "h", 0}});
  scheduler_.OpenSession({1, "weights alone", "i", "C", {{"m", "h"}}}, now_);
  scheduler_.OpenSession({2, "other tokenizer", "i", "C", {{"x", "g", "c", "u"}}}, now_);
  EXPECT_EQ(Grant(), 2) << "what comes first in the plan needs a tokenizer that is not here";
  EXPECT_EQ(last_.epoch, 1);
  EXPECT_EQ(Grant(), 0);
  scheduler_.TaskDone(2, now_);
  const Waiting waiting = scheduler_.WhyWaiting(10, now_);
  EXPECT_EQ(waiting.kind, Waiting::Kind::kNoModel);
  EXPECT_EQ(waiting.sentence, "no connected worker holds a model with the tokenizer of m, t");
  scheduler_.OpenSession({3, "not hashed yet", "i", "C", {{"y", "", "c", "t"}}}, now_);
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(last_.epoch, 3);
}

TEST_F(SchedulerTest, ATaskThatReadsTextGoesOnlyWhereItsTokenizerLiesBesideItsWeights) {
  scheduler_.AddExperiment({10, Priority::kNormal, "ada", "C"});
  const TaskFacts reads{1, 0, "slash_profile", "m", "h", 0, "t", 0, "c"};
  scheduler_.SetTasks(10, {reads});
  // Weights in one directory and the tokenizer in another are no model that can be fed.
  scheduler_.OpenSession({1, "w1", "i", "C", {{"m", "h", "c", "u"}, {"x", "g", "c", "t"}}}, now_);
  EXPECT_EQ(Grant(), 0);
  const Waiting waiting = scheduler_.WhyWaiting(10, now_);
  EXPECT_EQ(waiting.kind, Waiting::Kind::kNoModel);
  EXPECT_TRUE(waiting.held_otherwise);
  EXPECT_EQ(waiting.sentence,
            "no connected worker holds model m with the tokenizer that this experiment was planned with, t "
            "(worker w1 has its weights as m with u): put that tokenizer.json beside the weights again, or "
            "cancel and submit again");
  // Two directories of one worker with the same weights: the right one is found.
  scheduler_.OpenSession({2, "w2", "i", "C", {{"a", "h", "c", "u"}, {"b", "h", "c", "t"}}}, now_);
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(last_.epoch, 2);
  EXPECT_EQ(last_.model, "b");
}

TEST_F(SchedulerTest, WeightsThatWereExchangedUnderTheNameAreSaid) {
  scheduler_.AddExperiment({10, Priority::kNormal, "ada", "C"});
  scheduler_.SetTasks(10, {{1, 0, "slash_profile", "m", "h", 0}});
  scheduler_.OpenSession({1, "w1", "i", "C", {{"x", "g"}, {"m", ""}}}, now_);
  EXPECT_EQ(scheduler_.WhyWaiting(10, now_).sentence.find("with the weights"), std::string::npos)
      << "they may be the right ones";
  scheduler_.OpenSession({2, "w2", "i", "C", {{"m", "other"}}}, now_);
  const Waiting waiting = scheduler_.WhyWaiting(10, now_);
  EXPECT_TRUE(waiting.held_otherwise);
  EXPECT_EQ(waiting.sentence,
            "no connected worker holds model m with the weights that this experiment was planned with, h "
            "(worker w2 has other under this name): put those files back, or cancel and submit again");
}

TEST_F(SchedulerTest, OfTwoDirectoriesThatServeTheOneThatTheTaskWasPlannedForIsTaken) {
  Experiment(10, {1, 2});  // for "m"
  scheduler_.OpenSession({1, "w1", "i", "C", {{"a", "h"}, {"m", "h"}, {"x", "h"}}}, now_);
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(last_.model, "m");
  scheduler_.OpenSession({2, "w2", "i", "C", {{"a", "h"}, {"x", "h"}}}, now_);
  EXPECT_EQ(Grant(), 2);
  EXPECT_EQ(last_.model, "a");
}

TEST_F(SchedulerTest, ATaskThatReadsNoTextGoesWhereItsWeightsAreWhateverTokenizerLiesThere) {
  scheduler_.AddExperiment({10, Priority::kNormal, "ada", "C"});
  scheduler_.SetTasks(10, {{1, 0, "slash_profile", "m", "h", 0, "", 0, "c"}});
  scheduler_.OpenSession({1, "w1", "i", "C", {{"m", "h", "c", "u"}}}, now_);
  EXPECT_EQ(Grant(), 1);
}

TEST_F(SchedulerTest, TheSameWeightsUnderAnotherConfigAreAnotherModel) {
  scheduler_.AddExperiment({10, Priority::kNormal, "ada", "C"});
  scheduler_.SetTasks(10, {{1, 0, "slash_profile", "m", "h", 0, "", 0, "c"}});
  scheduler_.OpenSession({1, "w1", "i", "C", {{"m", "h", "d"}}}, now_);
  EXPECT_EQ(Grant(), 0);
  EXPECT_NE(scheduler_.WhyWaiting(10, now_).sentence.find("with the config that"), std::string::npos);
  scheduler_.AddModel(1, {"m", "h", "c"});
  EXPECT_EQ(Grant(), 1);
}

TEST_F(SchedulerTest, AWorkerThatHashesAnotherTokenizersModelIsNotWaitedFor) {
  const auto want = [&](int64_t id, int64_t task) {
    scheduler_.AddExperiment({id, Priority::kNormal, "ada", "C"});
    scheduler_.SetTasks(id, {{task, 0, "slash_profile", "m", "h", 0, "t", 101, "c"}});
  };
  SessionFacts small{1, "small", "i", "C", {{"m", "h", "c", "t"}}};
  small.memory_bytes = 100;
  scheduler_.OpenSession(std::move(small), now_);
  scheduler_.OpenSession({2, "hashing", "i", "C", {{"m", "", "c", "t"}}}, now_);
  want(10, 1);
  EXPECT_EQ(Grant(), 0) << "the large one may turn out to hold it";
  scheduler_.AddModel(2, {"m", "", "c", "u"});
  EXPECT_EQ(Grant(), 1) << "it cannot any more: the small one says what is missing";
  EXPECT_EQ(last_.epoch, 1);
  scheduler_.TaskDone(1, now_);
  scheduler_.AddModel(2, {"m", "", "c", "t"});
  want(11, 2);
  EXPECT_EQ(Grant(), 0);
  scheduler_.CannotHash(2, "m");
  EXPECT_EQ(Grant(), 2);
}

TEST_F(SchedulerTest, ATaskThatTwoExperimentsWantIsGrantedOnceAndEndsForBoth) {
  Worker(1, "a");
  Worker(2, "b");
  Experiment(10, {1});
  Experiment(11, {1});
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(Grant(), 0);
  EXPECT_EQ(scheduler_.TaskDone(1, now_), (std::vector<int64_t>{10, 11}));
  EXPECT_FALSE(scheduler_.HasUnfinishedTasks(10));
  EXPECT_FALSE(scheduler_.HasUnfinishedTasks(11));
  EXPECT_EQ(Grant(), 0);
}

TEST_F(SchedulerTest, RemovingOneOfTwoExperimentsKeepsTheirSharedTask) {
  Worker(1, "a");
  Experiment(10, {1, 2});
  Experiment(11, {1});
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(Grant(), 2);
  EXPECT_EQ(scheduler_.RemoveExperiment(10), (std::vector<int64_t>{2}));
  EXPECT_EQ(scheduler_.RemoveExperiment(11), (std::vector<int64_t>{1}));
}

TEST_F(SchedulerTest, BackOffDoublesFromATenthOfASecondToThirtySeconds) {
  Worker(1, "a");
  Experiment(10, {1});
  const int64_t expected_ms[] = {100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
  for (const int64_t ms : expected_ms) {
    ASSERT_EQ(Grant(), 1);
    scheduler_.TaskPending(1, true, "broke", now_);
    now_ += ms * 1'000'000 - 1;
    EXPECT_EQ(Grant(), 0) << ms;
    now_ += 1;
  }
  EXPECT_EQ(scheduler_.ChargedAttempts(1), 11);
}

TEST_F(SchedulerTest, AnUnchargedEndIsPendingAtOnce) {
  Worker(1, "a");
  Experiment(10, {1});
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(scheduler_.TaskPending(1, false, "", now_), (std::vector<int64_t>{10}));
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(scheduler_.ChargedAttempts(1), 0);
}

TEST_F(SchedulerTest, ALossCountsOnlyForATaskThatRanWithoutAReading) {
  Worker(1, "a");
  Experiment(10, {1, 2});
  Grant();
  Grant();
  Lease& running = *scheduler_.leases().Find(1);
  const Lease& ahead = *scheduler_.leases().Find(2);
  EXPECT_TRUE(Scheduler::LossCounts(running));
  EXPECT_FALSE(Scheduler::LossCounts(ahead));
  running.readings_committed = 1;
  EXPECT_FALSE(Scheduler::LossCounts(running));
}

TEST_F(SchedulerTest, ANewerSessionOfAWorkerClosesTheOlderAndItsLeasesWait) {
  Worker(1, "a");
  Experiment(10, {1});
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(scheduler_.OpenSession({2, "a", "i", "C", {{"h", "m"}}}, now_), (std::vector<int64_t>{1}));
  EXPECT_EQ(scheduler_.FindSession(1), nullptr);
  EXPECT_EQ(scheduler_.leases().Match(1, 1, 1), nullptr);
  EXPECT_EQ(Grant(), 0) << "still leased until it expires or is adopted";
}

TEST_F(SchedulerTest, ASessionIsSilentAfterALeaseTime) {
  Worker(1, "a");
  now_ += 29 * kSecond;
  EXPECT_TRUE(scheduler_.SilentSessions(now_).empty());
  scheduler_.Heard(1, now_);
  now_ += 29 * kSecond;
  EXPECT_TRUE(scheduler_.SilentSessions(now_).empty());
  now_ += kSecond;
  EXPECT_EQ(scheduler_.SilentSessions(now_), (std::vector<int64_t>{1}));
}

TEST_F(SchedulerTest, EverythingThatWaitsSaysWhy) {
  Experiment(10, {1});
  EXPECT_EQ(scheduler_.WhyWaiting(10, now_).kind, Waiting::Kind::kNoWorker);
  Worker(1, "other class", "D");
  EXPECT_EQ(scheduler_.WhyWaiting(10, now_).kind, Waiting::Kind::kNoClass);
  EXPECT_NE(scheduler_.WhyWaiting(10, now_).sentence.find("class C"), std::string::npos);
  Worker(2, "no model", "C", {});
  EXPECT_EQ(scheduler_.WhyWaiting(10, now_).kind, Waiting::Kind::kNoModel);
  EXPECT_EQ(scheduler_.WhyWaiting(10, now_).model, "m");
  Worker(3, "has it");
  scheduler_.DrainSession(3);
  EXPECT_EQ(scheduler_.WhyWaiting(10, now_).kind, Waiting::Kind::kDraining);
  Worker(4, "busy");
  EXPECT_EQ(scheduler_.WhyWaiting(10, now_).kind, Waiting::Kind::kBusy);
  EXPECT_EQ(Grant(), 1);
  EXPECT_EQ(scheduler_.WhyWaiting(10, now_).kind, Waiting::Kind::kNot);
  scheduler_.TaskPending(1, true, "bad weather", now_);
  EXPECT_EQ(scheduler_.WhyWaiting(10, now_).kind, Waiting::Kind::kBackOff);
  EXPECT_NE(scheduler_.WhyWaiting(10, now_).sentence.find("bad weather"), std::string::npos);
}

}  // namespace
}  // namespace ropelab::schedule
