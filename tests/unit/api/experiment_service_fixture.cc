#include "tests/unit/api/experiment_service_fixture.h"

#include <stdlib.h>

#include <filesystem>
#include <thread>

#include "google/protobuf/text_format.h"
#include "server/store/experiments.h"

namespace ropelab::api {

void FakeCoordinator::ExperimentSubmitted(int64_t experiment) {
  MutexLock lock(&mutex_);
  submitted_.push_back(experiment);
}

void FakeCoordinator::Cancel(int64_t experiment, const std::string&,
                             absl::AnyInvocable<void(absl::Status)> done) {
  done(store_->WriteAndWait([&](store::Connection& db) {
    return store::SetExperimentState(db, experiment, "cancelled", "", 5).status();
  }));
}

LiveExperiment FakeCoordinator::Live(int64_t experiment) {
  MutexLock lock(&mutex_);
  return live_[experiment];
}

std::vector<v1::ConnectedWorker> FakeCoordinator::Workers() {
  MutexLock lock(&mutex_);
  return workers_;
}

std::vector<Holding> FakeCoordinator::Holdings() {
  MutexLock lock(&mutex_);
  return holdings_;
}

void FakeCoordinator::SetHoldings(std::vector<Holding> holdings) {
  MutexLock lock(&mutex_);
  holdings_ = std::move(holdings);
}

int64_t FakeCoordinator::Subscribe(int64_t experiment, std::function<void()> changed) {
  MutexLock lock(&mutex_);
  subscribers_[next_handle_] = {experiment, std::move(changed)};
  return next_handle_++;
}

void FakeCoordinator::Unsubscribe(int64_t handle) {
  MutexLock lock(&mutex_);
  subscribers_.erase(handle);
}

std::vector<int64_t> FakeCoordinator::submitted() {
  MutexLock lock(&mutex_);
  return submitted_;
}

size_t FakeCoordinator::subscriptions() {
  MutexLock lock(&mutex_);
  return subscribers_.size();
}

void FakeCoordinator::SetLive(int64_t experiment, LiveExperiment live) {
  MutexLock lock(&mutex_);
  live_[experiment] = std::move(live);
}

void FakeCoordinator::SetWorkers(std::vector<v1::ConnectedWorker> workers) {
  MutexLock lock(&mutex_);
  workers_ = std::move(workers);
}

void FakeCoordinator::Moved(int64_t experiment) {
  MutexLock lock(&mutex_);
  for (auto& [handle, subscriber] : subscribers_) {
    if (subscriber.first == experiment) {
      subscriber.second();
    }
  }
}

void ExperimentServiceTest::SetUp() {
  std::string pattern = testing::TempDir() + "/experiment-service-XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  absl::StatusOr<std::unique_ptr<store::Store>> store = store::Store::Open({.data_dir = folder_});
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  store_ = *std::move(store);
  coordinator_ = std::make_unique<FakeCoordinator>(store_.get());
  registry_ = std::make_shared<prometheus::Registry>();
  metrics_ = std::make_unique<ServiceMetrics>(registry_);
  requests_ = std::make_unique<WorkPool>(2, 64);
  streams_ = std::make_unique<WorkPool>(2, 64);
  corpora_ = std::make_unique<WorkPool>(2, 64);
  ServiceContext context;
  context.store = store_.get();
  context.coordinator = coordinator_.get();
  context.requests = requests_.get();
  context.streams = streams_.get();
  context.corpora = corpora_.get();
  context.metrics = metrics_.get();
  context.clock = &Clock::Real();
  ExperimentServiceOptions options;
  options.watch_pace = {std::chrono::milliseconds(20), std::chrono::milliseconds(300)};
  options.stream_patience = std::chrono::milliseconds(300);
  service_ = ExperimentService::Create(context, options);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  ASSERT_NE(server_, nullptr);
  stub_ = v1::ExperimentService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
}

void ExperimentServiceTest::TearDown() {
  service_->StopWatches();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  requests_.reset();
  streams_.reset();
  corpora_.reset();
  service_.reset();
  store_->Close();
  store_.reset();
  std::filesystem::remove_all(folder_);
}

std::unique_ptr<grpc::ClientContext> ExperimentServiceTest::Call() {
  auto call = std::make_unique<grpc::ClientContext>();
  call->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  return call;
}

v1::Submission ExperimentServiceTest::Parse(const std::string& text) {
  v1::Submission submission;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &submission));
  return submission;
}

grpc::Status ExperimentServiceTest::Submit(const std::string& request_id, const v1::Submission& submission,
                                           v1::SubmitResponse* response) {
  v1::SubmitRequest request;
  request.set_request_id(request_id);
  request.set_user("ada");
  *request.mutable_submission() = submission;
  return stub_->Submit(Call().get(), request, response);
}

std::string ExperimentServiceTest::SubmitGeometry(const std::string& request_id) {
  v1::SubmitResponse response;
  const grpc::Status status =
      Submit(request_id, Parse("experiment { name: \"clock\" tags: \"demo\" rope_geometry {} }"), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.experiment_ids_size() == 1 ? response.experiment_ids(0) : "e0";
}

int64_t ExperimentServiceTest::Number(const std::string& id) {
  return std::stoll(id.substr(1));
}

void ExperimentServiceTest::SetState(const std::string& id, const std::string& state,
                                     const std::string& reason) {
  const absl::Status status = store_->WriteAndWait([&](store::Connection& db) {
    return store::SetExperimentState(db, Number(id), state, reason, 7).status();
  });
  ASSERT_TRUE(status.ok()) << status.ToString();
}

bool ExperimentServiceTest::Eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace ropelab::api
