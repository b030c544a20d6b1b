#include "server/api/health_service.h"

#include <set>

#include "gmock/gmock.h"
#include "tests/unit/api/experiment_service_fixture.h"

namespace ropelab::api {
namespace {

class FullStore : public store::Store {
 public:
  void Write(WriteClosure, Done) override {}
  absl::Status WriteAndWait(WriteClosure) override { return absl::ResourceExhaustedError("full"); }
  absl::Status Read(absl::FunctionRef<absl::Status(store::Connection&)>) override { return absl::OkStatus(); }
  store::ArtifactFiles& artifacts() override { return files_; }
  store::CorpusFiles& corpora() override { return corpora_; }
  bool disk_full() const override { return full; }
  void Close() override {}

  bool full = false;

 private:
  store::ArtifactFiles files_{"/nowhere"};
  store::CorpusFiles corpora_{"/nowhere"};
};

TEST(Health, AFullDiskIsAProblemUntilItHeals) {
  FullStore store;
  FakeCoordinator coordinator(&store);
  const std::unique_ptr<Health> health = Health::Watch(&store, &coordinator);
  EXPECT_EQ(health->Problem(), "");
  store.full = true;
  EXPECT_THAT(health->Problem(), testing::HasSubstr("disk"));
  store.full = false;
  EXPECT_EQ(health->Problem(), "");
}

TEST(WorkPool, RefusesBeyondItsLimitAndFinishesWhatItTook) {
  int ran = 0;
  {
    Mutex gate;
    gate.Lock();
    WorkPool pool(1, 2);
    Mutex started_mutex;
    CondVar started;
    bool is_started = false;
    ASSERT_TRUE(pool.Run([&] {
      {
        MutexLock lock(&started_mutex);
        is_started = true;
        started.NotifyAll();
      }
      MutexLock wait(&gate);
    }));
    {
      MutexLock lock(&started_mutex);
      while (!is_started) {
        started.Wait(&started_mutex);
      }
    }
    EXPECT_TRUE(pool.Run([&] { ++ran; }));
    EXPECT_TRUE(pool.Run([&] { ++ran; }));
    EXPECT_FALSE(pool.Run([&] { ran += 100; }));
    pool.Continue([&] { ++ran; });
    gate.Unlock();
  }
  EXPECT_EQ(ran, 3);
}

TEST_F(ExperimentServiceTest, RpcsAndSubmitsAreCounted) {
  SubmitGeometry("r1");
  v1::GetRequest request;
  request.set_id("e9");
  v1::Experiment shown;
  EXPECT_FALSE(stub_->Get(Call().get(), request, &shown).ok());
  std::set<std::string> seen;
  for (const prometheus::MetricFamily& family : registry_->Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      std::string series = family.name;
      for (const prometheus::ClientMetric::Label& label : metric.label) {
        series += " " + label.value;
      }
      seen.insert(series);
    }
  }
  EXPECT_THAT(seen,
              testing::IsSupersetOf({"ropelab_rpc_seconds Submit ok", "ropelab_rpc_seconds Get not_found",
                                     "ropelab_submits_total rope_geometry"}));
}

}  // namespace
}  // namespace ropelab::api
