#include <thread>

#include "gmock/gmock.h"
#include "tests/unit/api/experiment_service_fixture.h"

namespace ropelab::api {
namespace {

using testing::HasSubstr;

v1::WatchRequest Of(const std::string& id) {
  v1::WatchRequest request;
  request.set_id(id);
  return request;
}

TEST_F(ExperimentServiceTest, WatchSendsTheStateAtOnceThenChangesThenTheFinalOne) {
  const std::string id = SubmitGeometry("r1");
  const auto call = Call();
  const auto stream = stub_->Watch(call.get(), Of(id));
  v1::WatchEvent event;
  ASSERT_TRUE(stream->Read(&event));
  ASSERT_EQ(event.experiments_size(), 1);
  EXPECT_EQ(event.experiments(0).state(), "waiting");
  EXPECT_FALSE(event.final());

  SetState(id, "running", "");
  coordinator_->Moved(Number(id));
  do {
    ASSERT_TRUE(stream->Read(&event));
  } while (event.experiments(0).state() == "waiting");
  EXPECT_EQ(event.experiments(0).state(), "running");

  SetState(id, "done", "");
  coordinator_->Moved(Number(id));
  do {
    ASSERT_TRUE(stream->Read(&event));
  } while (!event.final());
  EXPECT_EQ(event.experiments(0).state(), "done");
  EXPECT_EQ(event.experiments(0).progress(), 1);
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return coordinator_->subscriptions() == 0; }));
}

TEST_F(ExperimentServiceTest, WatchOfWhatHasEndedSendsOneEvent) {
  const std::string id = SubmitGeometry("r1");
  SetState(id, "failed", "the model has a NaN");
  const auto call = Call();
  const auto stream = stub_->Watch(call.get(), Of(id));
  v1::WatchEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_TRUE(event.final());
  EXPECT_EQ(event.experiments(0).reason(), "the model has a NaN");
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ExperimentServiceTest, WatchOfAStudyEndsWhenAllItsExperimentsHave) {
  v1::SubmitResponse response;
  ASSERT_TRUE(Submit("r1",
                     Parse("study { name: \"s\" experiments { name: \"a\" rope_geometry {} } "
                           "experiments { name: \"b\" rope_geometry {} } }"),
                     &response)
                  .ok());
  SetState("e1", "done", "");
  const auto call = Call();
  const auto stream = stub_->Watch(call.get(), Of("s1"));
  v1::WatchEvent event;
  ASSERT_TRUE(stream->Read(&event));
  ASSERT_EQ(event.experiments_size(), 2);
  EXPECT_FALSE(event.final());
  EXPECT_EQ(coordinator_->subscriptions(), 2u);
  SetState("e2", "cancelled", "");
  coordinator_->Moved(2);
  do {
    ASSERT_TRUE(stream->Read(&event));
  } while (!event.final());
  EXPECT_EQ(event.experiments(1).state(), "cancelled");
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ExperimentServiceTest, AnEventComesEvenWhenNothingMoves) {
  const std::string id = SubmitGeometry("r1");
  const auto call = Call();
  const auto stream = stub_->Watch(call.get(), Of(id));
  v1::WatchEvent event;
  EXPECT_TRUE(stream->Read(&event));
  EXPECT_TRUE(stream->Read(&event));
  EXPECT_TRUE(stream->Read(&event));
  call->TryCancel();
}

TEST_F(ExperimentServiceTest, AStormOfChangesIsThinnedOut) {
  const std::string id = SubmitGeometry("r1");
  const auto call = Call();
  const auto stream = stub_->Watch(call.get(), Of(id));
  v1::WatchEvent event;
  ASSERT_TRUE(stream->Read(&event));
  const auto started = std::chrono::steady_clock::now();
  std::thread storm([&] {
    for (int i = 0; i < 5000; ++i) {
      coordinator_->Moved(Number(id));
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    SetState(id, "done", "");
    coordinator_->Moved(Number(id));
  });
  int events = 1;
  while (stream->Read(&event)) {
    ++events;
  }
  storm.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  EXPECT_TRUE(event.final());
  EXPECT_LE(events, took.count() / 0.020 + 2) << "the shortest pace of these tests is 20 ms";
}

TEST_F(ExperimentServiceTest, ACancelledWatchUnsubscribes) {
  const std::string id = SubmitGeometry("r1");
  const auto call = Call();
  const auto stream = stub_->Watch(call.get(), Of(id));
  v1::WatchEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(coordinator_->subscriptions(), 1u);
  call->TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return coordinator_->subscriptions() == 0; }));
}

TEST_F(ExperimentServiceTest, WatchOfAnUnknownIdIsNotFound) {
  const auto call = Call();
  const auto stream = stub_->Watch(call.get(), Of("s5"));
  v1::WatchEvent event;
  EXPECT_FALSE(stream->Read(&event));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("s5"));
}

TEST_F(ExperimentServiceTest, AServerThatStopsEndsItsWatchesWithUnavailable) {
  const std::string id = SubmitGeometry("r1");
  const auto call = Call();
  const auto stream = stub_->Watch(call.get(), Of(id));
  v1::WatchEvent event;
  ASSERT_TRUE(stream->Read(&event));
  service_->StopWatches();
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  const auto late = Call();
  EXPECT_EQ(stub_->Watch(late.get(), Of(id))->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace ropelab::api
