// The reading that a training gives, what stops it and what it refuses. The numbers themselves are tested
// where they are made, and by tests/e2e/shallow_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/unit/measure/list_recorder.h"

namespace ropelab::measure {
namespace {

v1::Measurement SmallRun() {
  v1::Measurement measurement;
  v1::ShallowTrainingRun& run = *measurement.mutable_shallow_training();
  run.set_features(3);
  run.set_pairs(4);
  run.set_offset(2);
  for (int s = 1; s <= 5; ++s) run.add_theta(2 * std::numbers::pi * (6 - s) / 11);
  run.set_semantic_theta(1.0 / 81);
  run.set_first_rate(1);
  run.set_first_steps(3);
  run.set_second_rate(10);
  run.set_second_steps(2);
  run.set_seed(42);
  run.set_batch(8);
  run.set_watched(16);
  run.set_judged(32);
  return measurement;
}

TEST(ShallowTraining, GivesOneReadingOfEveryStepAndTheStart) {
  ListRecorder recorder;
  const auto outcome = Measure(SmallRun(), nullptr, {}, recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->fed_ids_digest, "");
  ASSERT_EQ(recorder.readings.size(), 1u);
  const v1::ShallowTrajectory& trajectory = recorder.readings[0].shallow_trajectory();
  EXPECT_THAT(trajectory.stage(), testing::ElementsAre(1, 1, 1, 1, 2, 2));
  EXPECT_THAT(trajectory.step(), testing::ElementsAre(0, 1, 2, 3, 1, 2));
  EXPECT_NEAR(trajectory.min_slash(0), 1.0 / 9, 1e-15);  // uniform: the last of 9 rows sees the least
  EXPECT_EQ(trajectory.loss_size(), 6);
  EXPECT_EQ(recorder.calls, 5);
  EXPECT_EQ(recorder.done, 5);
  EXPECT_EQ(recorder.total, 5);
}

TEST(ShallowTraining, StopsBetweenTwoStepsWhenTheLeaseIsGone) {
  ListRecorder recorder;
  recorder.cancel_at_call = 2;
  EXPECT_EQ(Measure(SmallRun(), nullptr, {}, recorder).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(recorder.calls, 2);
  EXPECT_TRUE(recorder.readings.empty());
}

TEST(ShallowTraining, TheLongestTrajectoryFitsIntoAReading) {
  v1::Measurement request = SmallRun();
  v1::ShallowTrainingRun& run = *request.mutable_shallow_training();
  run.set_features(1);
  run.set_pairs(2);
  run.set_batch(1);
  run.set_watched(1);
  run.set_judged(1);
  run.set_first_steps(0);
  run.set_second_rate(1e-3);
  run.set_second_steps(20000);
  ListRecorder recorder;
  ASSERT_TRUE(Measure(request, nullptr, {}, recorder).ok());
  EXPECT_EQ(recorder.readings[0].shallow_trajectory().loss_size(), 20001);
  EXPECT_LT(recorder.readings[0].ByteSizeLong(), size_t{1} << 20);
}

TEST(ShallowTraining, RefusesWhatTrainsNothing) {
  const auto refused = [](auto change, const char* words) {
    v1::Measurement request = SmallRun();
    change(*request.mutable_shallow_training());
    ListRecorder recorder;
    const absl::Status status = Measure(request, nullptr, {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(words));
  };
  refused([](auto& run) { run.set_first_rate(0); }, "first_rate is 0");
  refused([](auto& run) { run.set_second_rate(std::nan("")); }, "second_rate is nan");
  refused([](auto& run) { run.set_second_steps(-1); }, "second_steps is -1");
  refused([](auto& run) { run.set_first_steps(20000); }, "20002 together; at most 20000");
  refused([](auto& run) { run.set_theta(1, INFINITY); }, "theta holds inf");
  refused([](auto& run) { run.clear_theta(); }, "frequencies are empty");
  refused([](auto& run) { run.set_offset(3); }, "offset is 3; it must divide the number of pairs, 4");
  refused([](auto& run) { run.set_judged(0); }, "8, 16 and 0; each is at least 1");
}

TEST(ShallowTraining, IsNotAdmittedWhereItsTablesDoNotFit) {
  v1::Measurement request = SmallRun();
  request.mutable_shallow_training()->set_pairs(4000);
  ListRecorder recorder;
  EXPECT_EQ(Measure(request, nullptr, {.memory_bytes = 1 << 30}, recorder).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace ropelab::measure
