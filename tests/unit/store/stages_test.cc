#include "tests/unit/store/store_fixture.h"

#include "server/store/task_counts.h"

namespace ropelab::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StagesTest : public StoreTest {
 protected:
  std::vector<std::string> Keys(int64_t experiment) {
    std::vector<std::string> keys;
    for (const TaskRow& task : Tasks(experiment)) keys.push_back(task.key);
    return keys;
  }
  void Cancel(int64_t experiment) {
    ASSERT_TRUE(WriteStatus([&](Connection& db) -> absl::Status {
                  const auto set = SetExperimentState(db, experiment, "cancelled", "", 9);
                  return set.ok() ? DetachExperiment(db, experiment) : set.status();
                }).ok());
  }
  std::vector<int64_t> Pending(int64_t experiment) {
    return Read([&](Connection& db) { return PendingTasks(db, experiment); });
  }
};

TEST_F(StagesTest, PlanningAgainChangesNothing) {
  const int64_t e = Submit("r1");
  Plan(e, {"k1", "k2", "k3"});
  const std::vector<TaskRow> first = Tasks(e);
  Plan(e, {"k1", "k2", "k3"});
  const std::vector<TaskRow> again = Tasks(e);
  ASSERT_EQ(again.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(again[i].id, first[i].id);
    EXPECT_EQ(again[i].index, static_cast<int64_t>(i));
  }
  EXPECT_EQ(Number("SELECT COUNT(*) FROM tasks"), 3);
}

TEST_F(StagesTest, ASliceLostHalfwayIsCompletedByInsertingAgain) {
  const int64_t e = Submit("r1");
  ASSERT_TRUE(WriteStatus([&](Connection& db) -> absl::Status {
                absl::Status status = BeginStage(db, e, 1, "inputs");
                if (!status.ok()) return status;
                return InsertStageTasks(db, store_->artifacts(), e, 1, 0, {ATask("k1")}, "", false);
              }).ok());
  EXPECT_EQ(Read([&](Connection& db) { return StagesOf(db, e); }).at(0).state, "planning");
  Plan(e, {"k1", "k2"});
  EXPECT_THAT(Keys(e), ElementsAre("k1", "k2"));
  const StageRow stage = Read([&](Connection& db) { return StagesOf(db, e); }).at(0);
  EXPECT_EQ(stage.state, "running");
  EXPECT_EQ(stage.tasks, 2);
  EXPECT_EQ(stage.finished, 0);
  EXPECT_EQ(stage.plan_digest, "plan");
}

TEST_F(StagesTest, APlanThatIsNotWholeDoesNotFinish) {
  const int64_t e = Submit("r1");
  Plan(e, {"k1"});
  EXPECT_EQ(WriteStatus([&](Connection& db) { return FinishPlanning(db, e, 1, "plan", 2); }).code(),
            absl::StatusCode::kInternal);
}

TEST_F(StagesTest, MeasurementsComeBackWhetherSmallOrLarge) {
  const int64_t e = Submit("r1");
  NewTask small = ATask("k1"), large = ATask("k2");
  large.measurement = std::string(70000, 'x');
  ASSERT_TRUE(WriteStatus([&](Connection& db) -> absl::Status {
                absl::Status status = BeginStage(db, e, 1, "inputs");
                if (!status.ok()) return status;
                return InsertStageTasks(db, store_->artifacts(), e, 1, 0, {small, large}, "", false);
              }).ok());
  const std::vector<TaskRow> tasks = Tasks(e);
  const auto measurement = [&](int64_t task) {
    return Read([&](Connection& db) { return MeasurementOf(db, store_->artifacts(), task); });
  };
  EXPECT_EQ(measurement(tasks[0].id), small.measurement);
  EXPECT_EQ(measurement(tasks[1].id), large.measurement);
  // sha256sum of 70000 times x.
  EXPECT_TRUE(store_->artifacts().Has("bca09f4a757d5571c7d9f3341d4301f3c391c090826acc1a3013c6bcb7c01722"));
}

TEST_F(StagesTest, PinningGivesTheClassAndRefusesAnother) {
  const int64_t e = Submit("r1");
  Plan(e, {"k1"});
  EXPECT_EQ(Tasks(e)[0].numerics_class, "");
  EXPECT_EQ(Pin(e, "cls"), 0);
  EXPECT_EQ(Pin(e, "cls"), 0);
  EXPECT_EQ(Tasks(e)[0].numerics_class, "cls");
  EXPECT_EQ(WriteStatus([&](Connection& db) { return PinExperiment(db, e, "other").status(); }).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(StagesTest, PinningMergesWithWhatAnotherExperimentMeasured) {
  const int64_t first = Submit("r1");
  Plan(first, {"k1", "k2"});
  Pin(first, "cls");
  const int64_t measured = Tasks(first)[0].id;
  Finish(measured);

  const int64_t second = Submit("r2");
  Plan(second, {"k3", "k1", "k2"});
  EXPECT_EQ(Pin(second, "cls"), 2);
  const std::vector<TaskRow> tasks = Tasks(second);
  ASSERT_EQ(tasks.size(), 3u);
  EXPECT_EQ(tasks[1].id, measured);
  EXPECT_EQ(tasks[1].state, "finished");
  EXPECT_EQ(tasks[1].measured_for, first);
  EXPECT_EQ(tasks[2].id, Tasks(first)[1].id);
  EXPECT_EQ(Number("SELECT COUNT(*) FROM tasks"), 3);
  EXPECT_THAT(Pending(second), ElementsAre(tasks[0].id, tasks[2].id));

  const TaskCounts counts = Read([&](Connection& db) { return CountTasks(db, second); });
  EXPECT_EQ(counts.total, 3);
  EXPECT_EQ(counts.pending, 2);
  EXPECT_EQ(counts.finished, 1);
  EXPECT_EQ(counts.reused, 1);
  EXPECT_EQ(counts.readings, 2);
  EXPECT_EQ(counts.stage, 1);
}

TEST_F(StagesTest, AnotherClassSharesNothing) {
  const int64_t first = Submit("r1"), second = Submit("r2");
  Plan(first, {"k1"});
  Plan(second, {"k1"});
  Pin(first, "cls");
  EXPECT_EQ(Pin(second, "other"), 0);
  EXPECT_NE(Tasks(first)[0].id, Tasks(second)[0].id);
}

TEST_F(StagesTest, EqualTasksWithinAStageBecomeOneAndThePlanStaysWhole) {
  const int64_t e = Submit("r1");
  Plan(e, {"k1", "k2", "k1"});
  EXPECT_EQ(Pin(e, "cls"), 1);
  EXPECT_THAT(Keys(e), ElementsAre("k1", "k2", "k1"));
  const std::vector<TaskRow> tasks = Tasks(e);
  EXPECT_EQ(tasks[0].id, tasks[2].id);
  EXPECT_THAT(Pending(e), ElementsAre(tasks[0].id, tasks[1].id));
  Finish(tasks[0].id);
  EXPECT_EQ(Read([&](Connection& db) { return StagesOf(db, e); }).at(0).finished, 2);
}

TEST_F(StagesTest, AStagePlannedAfterThePinLinksWhatExists) {
  const int64_t first = Submit("r1");
  Plan(first, {"k1"});
  Pin(first, "cls");
  const int64_t second = Submit("r2");
  Pin(second, "cls");
  Plan(second, {"k2", "k1"}, "cls");
  EXPECT_EQ(Tasks(second)[1].id, Tasks(first)[0].id);
  EXPECT_EQ(Tasks(second)[0].numerics_class, "cls");
}

TEST_F(StagesTest, BypassingReuseMeasuresAfreshButSharesWithinTheExperiment) {
  const int64_t first = Submit("r1");
  Plan(first, {"k1"});
  Pin(first, "cls");
  Finish(Tasks(first)[0].id);
  const int64_t again = Submit("r2");
  Plan(again, {"k1", "k1"}, "", /*bypass_reuse=*/true);
  EXPECT_EQ(Pin(again, "cls"), 1);
  const std::vector<TaskRow> tasks = Tasks(again);
  EXPECT_EQ(tasks[0].state, "pending");
  EXPECT_NE(tasks[0].id, Tasks(first)[0].id);
  EXPECT_EQ(tasks[0].id, tasks[1].id);
}

TEST_F(StagesTest, CancelDetachesButSharedTasksGoOn) {
  const int64_t first = Submit("r1"), second = Submit("r2");
  Plan(first, {"k1", "k2"});
  Plan(second, {"k2"});
  Pin(first, "cls");
  Pin(second, "cls");
  Cancel(first);
  const std::vector<TaskRow> tasks = Tasks(first);
  EXPECT_EQ(tasks[0].state, "unwanted");
  EXPECT_EQ(tasks[1].state, "pending");
  EXPECT_THAT(Read([&](Connection& db) { return ExperimentsWanting(db, tasks[1].id); }), ElementsAre(second));
  EXPECT_THAT(Read([&](Connection& db) { return ExperimentsWanting(db, tasks[0].id); }), IsEmpty());
  EXPECT_THAT(Pending(second), ElementsAre(tasks[1].id));
}

TEST_F(StagesTest, ARunningTaskOfACancelledExperimentIsNotGrantedAgain) {
  const int64_t e = Submit("r1");
  Plan(e, {"k1"});
  Pin(e, "cls");
  const Token token = Lease(Tasks(e)[0].id);
  Cancel(e);
  EXPECT_EQ(Task(token.task).state, "leased");
  EXPECT_TRUE(Write([&](Connection& db) { return EndAttempt(db, token, {.outcome = "cancelled"}); }));
  EXPECT_EQ(Task(token.task).state, "unwanted");
}

TEST_F(StagesTest, ATaskThatNobodyWantedStartsAfreshForANewExperiment) {
  const int64_t first = Submit("r1");
  Plan(first, {"k1"});
  Pin(first, "cls");
  Cancel(first);
  const int64_t second = Submit("r2");
  Plan(second, {"k1"});
  EXPECT_EQ(Pin(second, "cls"), 1);
  const TaskRow task = Tasks(second)[0];
  EXPECT_EQ(task.id, Tasks(first)[0].id);
  EXPECT_EQ(task.state, "pending");
  EXPECT_EQ(task.measured_for, second);
}

}  // namespace
}  // namespace ropelab::store
