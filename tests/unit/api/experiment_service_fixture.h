// The client-facing service over a real channel, with a real store in a directory of its own and a
// coordinator that does nothing.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "ropelab/v1/experiment_service.grpc.pb.h"
#include "server/api/experiment_service.h"

namespace ropelab::api {

// Remembers what it was told; cancels in the store at once.
class FakeCoordinator : public Coordinator {
 public:
  explicit FakeCoordinator(store::Store* store) : store_(store) {}

  absl::Status Start() override { return absl::OkStatus(); }
  void Stop() override {}
  void ExperimentSubmitted(int64_t experiment) override;
  void Cancel(int64_t experiment, const std::string& user,
              absl::AnyInvocable<void(absl::Status)> done) override;
  LiveExperiment Live(int64_t experiment) override;
  std::vector<v1::ConnectedWorker> Workers() override;
  std::vector<Holding> Holdings() override;
  int64_t Subscribe(int64_t experiment, std::function<void()> changed) override;
  void Unsubscribe(int64_t handle) override;
  int64_t LinkOpened(std::shared_ptr<WorkerLink>) override { return 0; }
  void LinkMessage(int64_t, v1::WorkerMessage, std::function<void()>) override {}
  void LinkClosed(int64_t) override {}

  std::vector<int64_t> submitted();
  size_t subscriptions();
  void SetLive(int64_t experiment, LiveExperiment live);
  void SetWorkers(std::vector<v1::ConnectedWorker> workers);
  void SetHoldings(std::vector<Holding> holdings);
  // Tells every subscriber of the experiment that it moved.
  void Moved(int64_t experiment);

 private:
  store::Store* const store_;
  Mutex mutex_;
  std::vector<int64_t> submitted_;
  std::map<int64_t, LiveExperiment> live_;
  std::vector<v1::ConnectedWorker> workers_;
  std::vector<Holding> holdings_;
  std::map<int64_t, std::pair<int64_t, std::function<void()>>> subscribers_;
  int64_t next_handle_ = 1;
};

class ExperimentServiceTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // A call's context with a deadline that no test should meet.
  static std::unique_ptr<grpc::ClientContext> Call();
  // Text format of a v1::Submission.
  static v1::Submission Parse(const std::string& text);
  grpc::Status Submit(const std::string& request_id, const v1::Submission& submission,
                      v1::SubmitResponse* response);
  // A geometry experiment, which needs no model; its id.
  std::string SubmitGeometry(const std::string& request_id);
  static int64_t Number(const std::string& id);
  void SetState(const std::string& id, const std::string& state, const std::string& reason);
  bool Eventually(const std::function<bool()>& holds);

  std::string folder_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<FakeCoordinator> coordinator_;
  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<ServiceMetrics> metrics_;
  std::unique_ptr<WorkPool> requests_, streams_, corpora_;
  std::unique_ptr<ExperimentService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::ExperimentService::Stub> stub_;
};

}  // namespace ropelab::api
