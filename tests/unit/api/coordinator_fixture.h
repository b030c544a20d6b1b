// The real coordinator over a real store in a directory of its own, with workers that are scripts.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/api/coordinator.h"
#include "server/api/service_context.h"
#include "server/store/experiments.h"
#include "server/store/tasks.h"
#include "tests/unit/api/fake_worker.h"

namespace ropelab::api {

class CoordinatorTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  void StartServer();
  void StopServer();
  void StartAnew();  // over an empty directory
  // The worker takes grants and finishes them until the experiment is final. Returns how many.
  int FinishUntilFinal(FakeWorker& worker, int64_t experiment);
  FakeWorker Worker(const std::string& id, const std::string& incarnation = "i1");
  FakeWorker ConnectedWorker(const std::string& id, const std::string& incarnation = "i1");

  // `prompts` uniform prompts of 16 tokens on model "tiny": one task per 8. `sampled`: drawn first, in a
  // stage of their own.
  int64_t Submit(const std::string& request_id, int prompts, bool sampled = false, uint64_t seed = 42);
  int64_t SubmitPrompts(const std::string& request_id, const std::string& source, uint64_t seed = 42);
  // A registered corpus of plain text.
  void AddCorpus(const std::string& name, const std::vector<std::string>& documents);
  store::ExperimentRow Row(int64_t experiment);
  std::vector<store::TaskRow> Tasks(int64_t experiment, int64_t stage = 1);
  std::vector<store::AttemptRow> Attempts(int64_t task);
  bool Reaches(int64_t experiment, const std::string& state,
               std::chrono::milliseconds patience = std::chrono::seconds(5));
  bool Eventually(const std::function<bool()>& holds,
                  std::chrono::milliseconds patience = std::chrono::seconds(5));

  CoordinatorOptions options_{.lease_ms = 10000, .heartbeat_ms = 1000, .max_attempts = 3};
  std::string folder_;
  std::unique_ptr<store::Store> store_;
  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<ServiceMetrics> metrics_;
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace ropelab::api
