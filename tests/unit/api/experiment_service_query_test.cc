#include "gmock/gmock.h"
#include "server/api/experiment_service_describe.h"
#include "server/store/models.h"
#include "tests/unit/api/experiment_service_fixture.h"

namespace ropelab::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(ExperimentServiceTest, GetShowsWhatWasSubmittedAndWhyItWaits) {
  const std::string id = SubmitGeometry("r1");
  LiveExperiment live;
  live.reason = "no worker is connected";
  coordinator_->SetLive(Number(id), live);
  v1::GetRequest request;
  request.set_id(id);
  v1::Experiment shown;
  ASSERT_TRUE(stub_->Get(Call().get(), request, &shown).ok());
  EXPECT_EQ(shown.id(), id);
  EXPECT_EQ(shown.name(), "clock");
  EXPECT_EQ(shown.kind(), "rope_geometry");
  EXPECT_EQ(shown.owner(), "ada");
  EXPECT_FALSE(shown.owner_verified());
  EXPECT_EQ(shown.state(), "waiting");
  EXPECT_EQ(shown.reason(), "no worker is connected");
  EXPECT_EQ(shown.priority(), "normal");
  EXPECT_EQ(shown.spec_hash().size(), 64u);
  EXPECT_GT(shown.submitted_microseconds(), 0);
  EXPECT_LT(shown.seconds_left(), 0);
  EXPECT_THAT(shown.tags(), ElementsAre("demo"));
}

TEST_F(ExperimentServiceTest, UnknownAndMalformedIdsAreToldApart) {
  v1::GetRequest request;
  v1::Experiment shown;
  request.set_id("e99");
  grpc::Status status = stub_->Get(Call().get(), request, &shown);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("e99"));
  EXPECT_THAT(status.error_message(), HasSubstr("`ropelab list`"));
  for (const char* wrong : {"", "e", "99", "e01", "e-1", "x1", "e1 ", "e99999999999999999999"}) {
    request.set_id(wrong);
    status = stub_->Get(Call().get(), request, &shown);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << wrong;
  }
}

TEST_F(ExperimentServiceTest, AStudysIdWhereAnExperimentsIsNeededNamesItsExperiments) {
  v1::SubmitResponse response;
  ASSERT_TRUE(Submit("r1",
                     Parse("study { name: \"s\" experiments { name: \"a\" rope_geometry {} } "
                           "experiments { name: \"b\" rope_geometry {} } }"),
                     &response)
                  .ok());
  v1::GetRequest request;
  request.set_id("s1");
  v1::Experiment shown;
  const grpc::Status status = stub_->Get(Call().get(), request, &shown);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("e1, e2"));
}

TEST_F(ExperimentServiceTest, ListIsNewestFirstAndFilters) {
  const std::string first = SubmitGeometry("r1");
  const std::string second = SubmitGeometry("r2");
  SetState(first, "failed", "because");
  v1::ListRequest request;
  v1::ListResponse response;
  ASSERT_TRUE(stub_->List(Call().get(), request, &response).ok());
  ASSERT_EQ(response.experiments_size(), 2);
  EXPECT_EQ(response.experiments(0).id(), second);
  request.set_state("failed");
  ASSERT_TRUE(stub_->List(Call().get(), request, &response).ok());
  ASSERT_EQ(response.experiments_size(), 1);
  EXPECT_EQ(response.experiments(0).id(), first);
  EXPECT_EQ(response.experiments(0).reason(), "because");
}

TEST_F(ExperimentServiceTest, ListRefusesAStateThatDoesNotExist) {
  v1::ListRequest request;
  request.set_state("finished");
  v1::ListResponse response;
  const grpc::Status status = stub_->List(Call().get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("cancelled"));
}

TEST_F(ExperimentServiceTest, CancelAnswersWithTheCancelledExperiment) {
  const std::string id = SubmitGeometry("r1");
  v1::CancelRequest request;
  request.set_id(id);
  v1::Experiment shown;
  ASSERT_TRUE(stub_->Cancel(Call().get(), request, &shown).ok());
  EXPECT_EQ(shown.state(), "cancelled");
  request.set_id("e77");
  EXPECT_EQ(stub_->Cancel(Call().get(), request, &shown).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ExperimentServiceTest, ModelsTellWhoHoldsThem) {
  v1::ModelAnnouncement announcement;
  announcement.set_name("tiny");
  announcement.set_config_hash(std::string(64, 'c'));
  announcement.set_weights_hash(std::string(64, 'a'));
  ASSERT_TRUE(store_
                  ->WriteAndWait(
                      [&](store::Connection& db) { return store::RecordModel(db, announcement, "gone", 3); })
                  .ok());
  v1::ConnectedWorker worker;
  worker.set_id("w1");
  coordinator_->SetWorkers({worker});
  const std::string config = announcement.config_hash(), weights = announcement.weights_hash();
  coordinator_->SetHoldings(
      {{"w1", "tiny", config, "", weights, true},
       {"w2", "tiny", config, "", "", false},                        // not hashed yet
       {"w3", "tiny", config, "", std::string(64, 'b'), false},      // other weights
       {"w4", "tiny", config, std::string(64, 't'), weights, true},  // another tokenizer
       {"w5", "other", config, "", weights, true}});
  v1::ListModelsResponse models;
  ASSERT_TRUE(stub_->ListModels(Call().get(), {}, &models).ok());
  ASSERT_EQ(models.models_size(), 1);
  EXPECT_EQ(models.models(0).announcement().name(), "tiny");
  EXPECT_THAT(models.models(0).workers(), ElementsAre("w1", "w2"));
  EXPECT_EQ(models.models(0).resident_on(), "w1");
  v1::ListWorkersResponse workers;
  ASSERT_TRUE(stub_->ListWorkers(Call().get(), {}, &workers).ok());
  EXPECT_EQ(workers.workers_size(), 1);
}

TEST(DescribeExperiment, TimeLeftIsWorkLeftAtTheRateOfWhatWasMeasured) {
  store::ExperimentRow row;
  row.id = 4;
  row.state = "running";
  row.started_us = 1'000'000;
  store::TaskCounts counts;
  counts.total = 20;
  counts.finished = 9;
  counts.reused = 4;
  LiveExperiment live;
  live.running_progress = 1;
  live.tasks_running = 2;
  // 5 measured and 1 of running ones in 30 s: 5 s each; 10 are left.
  const v1::Experiment shown = DescribeExperiment(row, counts, live, 31'000'000);
  EXPECT_DOUBLE_EQ(shown.seconds_left(), 50);
  EXPECT_DOUBLE_EQ(shown.progress(), 0.5);
  EXPECT_EQ(shown.tasks_running(), 2);
  live.tasks_running = 0;  // behind others: no speed is known
  EXPECT_LT(DescribeExperiment(row, counts, live, 31'000'000).seconds_left(), 0);
}

}  // namespace
}  // namespace ropelab::api
