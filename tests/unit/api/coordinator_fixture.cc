#include "tests/unit/api/coordinator_fixture.h"

#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/text_format.h"
#include "server/api/experiment_service_submit.h"
#include "server/api/ids.h"

namespace ropelab::api {
namespace {

using std::chrono::milliseconds;

}  // namespace

void CoordinatorTest::SetUp() {
  std::string pattern = testing::TempDir() + "/coordinator-XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  StartServer();
}

void CoordinatorTest::TearDown() {
  StopServer();
  std::filesystem::remove_all(folder_);
}

void CoordinatorTest::StartServer() {
  absl::StatusOr<std::unique_ptr<store::Store>> store = store::Store::Open({.data_dir = folder_});
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  store_ = *std::move(store);
  registry_ = std::make_shared<prometheus::Registry>();
  metrics_ = std::make_unique<ServiceMetrics>(registry_);
  coordinator_ = Coordinator::Create(options_, store_.get(), registry_);
  ASSERT_TRUE(coordinator_->Start().ok());
}

void CoordinatorTest::StopServer() {
  if (coordinator_ == nullptr) {
    return;
  }
  coordinator_->Stop();
  store_->Close();
  coordinator_.reset();
  store_.reset();
}

void CoordinatorTest::StartAnew() {
  StopServer();
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directory(folder_);
  StartServer();
}

int CoordinatorTest::FinishUntilFinal(FakeWorker& worker, int64_t experiment) {
  int finished = 0;
  EXPECT_TRUE(Eventually([&] {
    while (const auto grant = worker.Granted(milliseconds(10))) {
      worker.Finishes(*grant);
      ++finished;
    }
    const std::string state = Row(experiment).state;
    return state == "done" || state == "failed" || state == "cancelled";
  }));
  return finished;
}

FakeWorker CoordinatorTest::Worker(const std::string& id, const std::string& incarnation) {
  return FakeWorker(coordinator_.get(), id, incarnation);
}

FakeWorker CoordinatorTest::ConnectedWorker(const std::string& id, const std::string& incarnation) {
  FakeWorker worker = Worker(id, incarnation);
  worker.Connect();
  worker.Welcomed();
  return worker;
}

void CoordinatorTest::AddCorpus(const std::string& name, const std::vector<std::string>& documents) {
  const auto add = [&]() -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(const auto upload, store_->corpora().Begin(name, "text"));
    for (const std::string& document : documents) {
      ROPELAB_RETURN_IF_ERROR(upload->Append(document, true));
    }
    ROPELAB_ASSIGN_OR_RETURN(const store::CorpusRow row, upload->Finish([] { return absl::OkStatus(); }));
    return store_->WriteAndWait(
        [&](store::Connection& db) { return store::RegisterCorpus(db, row).status(); });
  };
  const absl::Status added = add();
  ASSERT_TRUE(added.ok()) << added;
}

int64_t CoordinatorTest::Submit(const std::string& request_id, int prompts, bool sampled, uint64_t seed) {
  return SubmitPrompts(request_id,
                       sampled ? absl::StrCat("sampled { count: ", prompts, " tokens: 16 temperature: 1 }")
                               : absl::StrCat("uniform_tokens { count: ", prompts, " tokens: 16 }"),
                       seed);
}

int64_t CoordinatorTest::SubmitPrompts(const std::string& request_id, const std::string& source,
                                       uint64_t seed) {
  v1::SubmitRequest request;
  request.set_request_id(request_id);
  request.set_user("ada");
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("experiment { name: \"t\" model: \"tiny\" seeds: ", seed, " slash_detection { prompts { ",
                   source, " } regime: SMALL } }"),
      request.mutable_submission()));
  ServiceContext context;
  context.store = store_.get();
  context.coordinator = coordinator_.get();
  context.metrics = metrics_.get();
  context.clock = &Clock::Real();
  v1::SubmitResponse response;
  const absl::Status status = api::Submit(context, request, response);
  EXPECT_TRUE(status.ok()) << status.ToString();
  if (response.experiment_ids().empty()) {
    return 0;
  }
  return ParseId(response.experiment_ids(0))->number;
}

store::ExperimentRow CoordinatorTest::Row(int64_t experiment) {
  store::ExperimentRow row;
  EXPECT_TRUE(store_
                  ->Read([&](store::Connection& db) -> absl::Status {
                    ROPELAB_ASSIGN_OR_RETURN(row, store::GetExperiment(db, experiment));
                    return absl::OkStatus();
                  })
                  .ok());
  return row;
}

std::vector<store::TaskRow> CoordinatorTest::Tasks(int64_t experiment, int64_t stage) {
  std::vector<store::TaskRow> tasks;
  EXPECT_TRUE(store_
                  ->Read([&](store::Connection& db) -> absl::Status {
                    ROPELAB_ASSIGN_OR_RETURN(tasks, store::TasksOf(db, experiment, stage));
                    return absl::OkStatus();
                  })
                  .ok());
  return tasks;
}

std::vector<store::AttemptRow> CoordinatorTest::Attempts(int64_t task) {
  std::vector<store::AttemptRow> attempts;
  EXPECT_TRUE(store_
                  ->Read([&](store::Connection& db) -> absl::Status {
                    ROPELAB_ASSIGN_OR_RETURN(attempts, store::AttemptsOf(db, task));
                    return absl::OkStatus();
                  })
                  .ok());
  return attempts;
}

bool CoordinatorTest::Reaches(int64_t experiment, const std::string& state, milliseconds patience) {
  const bool reached = Eventually([&] { return Row(experiment).state == state; }, patience);
  if (!reached) {
    const store::ExperimentRow row = Row(experiment);
    ADD_FAILURE() << "e" << experiment << " is " << row.state << ", not " << state << ": " << row.reason
                  << " / " << coordinator_->Live(experiment).reason;
  }
  return reached;
}

bool CoordinatorTest::Eventually(const std::function<bool()>& holds, milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) {
      return false;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

}  // namespace ropelab::api
