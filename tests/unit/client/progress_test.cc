#include "client/progress.h"

#include "gtest/gtest.h"

namespace ropelab::client {
namespace {

v1::Experiment At(const std::string& state, int64_t done, int64_t reused = 0) {
  v1::Experiment experiment;
  experiment.set_id("1");
  experiment.set_state(state);
  experiment.set_stage(1);
  experiment.set_tasks_done(done);
  experiment.set_tasks_reused(reused);
  experiment.set_tasks_total(100);
  experiment.set_seconds_left(-1);
  return experiment;
}

v1::WatchEvent Event(const v1::Experiment& experiment) {
  v1::WatchEvent event;
  *event.add_experiments() = experiment;
  return event;
}

TEST(RateMeter, CountsMeasuredTasksOverTheLastMinute) {
  RateMeter meter;
  EXPECT_LT(meter.rate(), 0);
  meter.Add(0, At("running", 50, 50));
  meter.Add(10, At("running", 70, 50));
  EXPECT_DOUBLE_EQ(meter.rate(), 2);
  meter.Add(70, At("running", 70, 50));
  meter.Add(130, At("running", 130, 50));
  EXPECT_DOUBLE_EQ(meter.rate(), 1);
}

TEST(RateMeter, SaysNothingOfAMomentTooShort) {
  RateMeter meter;
  meter.Add(0, At("running", 0));
  meter.Add(0.5, At("running", 8));
  EXPECT_LT(meter.rate(), 0);
}

TEST(LineProgress, WritesALineAtOnceWhenTheStateChangesAndRarelyWhenOnlyNumbersDo) {
  const auto view = MakeLineProgress();
  WatchedExperiments watched;
  const auto show = [&](const v1::Experiment& experiment, double seconds) {
    watched.Update(Event(experiment), seconds);
    return view->Show(watched, seconds);
  };
  EXPECT_EQ(show(At("queued", 0), 0), "1  queued  stage 1  0/100 tasks  0%\n");
  EXPECT_EQ(show(At("queued", 0), 6), "");
  EXPECT_EQ(show(At("running", 0), 6.1), "1  running  stage 1  0/100 tasks  0%\n");
  EXPECT_EQ(show(At("running", 3), 7.1), "");
  EXPECT_NE(show(At("running", 4), 11.2), "");
}

TEST(TerminalProgress, RewritesTheLinesOfAllExperiments) {
  const auto view = MakeTerminalProgress(16);
  WatchedExperiments watched;
  watched.Update(Event(At("queued", 0)), 0);
  EXPECT_EQ(view->Show(watched, 0), "\r\x1b[K1  queued  sta…\n");
  watched.Update(Event(At("done", 100)), 0.01);
  EXPECT_EQ(view->Show(watched, 0.01), "\x1b[1A\r\x1b[K1  done  100/1…\n");
}

TEST(WatchedExperiments, IsDoneOnlyWhenEveryExperimentIs) {
  WatchedExperiments watched;
  EXPECT_FALSE(watched.AllFinal());
  EXPECT_FALSE(watched.AllDone());
  watched.Update(Event(At("done", 100)), 0);
  EXPECT_TRUE(watched.AllDone());
  v1::Experiment other = At("cancelled", 3);
  other.set_id("2");
  watched.Update(Event(other), 1);
  EXPECT_TRUE(watched.AllFinal());
  EXPECT_FALSE(watched.AllDone());
}

}  // namespace
}  // namespace ropelab::client
