// Models are loaded, kept and checked against the files that they came from. Planted models stand in for
// checkpoints: their size is known.
#include "worker/session/model_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "prometheus/text_serializer.h"
#include "tests/unit/formats/temporary_directory.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/plant.h"

namespace ropelab::session {
namespace {

using ::ropelab::unit::TemporaryDirectory;
using ::testing::HasSubstr;
using ::testing::Not;

class SilentRecorder : public measure::Recorder {
 public:
  absl::Status Emit(v1::Reading, std::vector<measure::ArtifactBytes>) override { return absl::OkStatus(); }
  absl::Status Progress(double, double) override {
    ++asked;
    return lease_gone ? absl::CancelledError("gone") : absl::OkStatus();
  }
  int asked = 0;
  bool lease_gone = false;
};

class ModelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { Plant("m", 1); }

  // 256 x 512 embedding, one layer of 8 heads of 64 dimensions.
  void Plant(const std::string& name, uint64_t seed) {
    formats::PlantOptions options;
    options.out = roots_.File(name);
    options.seed = seed;
    options.strength = 12;
    ASSERT_TRUE(formats::Plant(options).ok());
  }
  ModelCache Cache(int64_t memory_limit = 0) {
    return ModelCache({{roots_.path()}, cache_dir_.path(), at::kCPU, memory_limit, &metrics_});
  }
  v1::Grant GrantFor(const std::string& name, v1::Dtype::Value dtype = v1::Dtype::FLOAT32) {
    v1::Grant grant;
    grant.set_model(name);
    v1::ModelIdentity& model = *grant.mutable_measurement()->mutable_model();
    const std::string directory = roots_.File(name);
    model.set_config_hash(formats::ConfigHash(*formats::ReadConfig(directory)));
    model.set_weights_hash(*formats::WeightsHash(directory, "", [](int64_t, int64_t) { return true; }));
    model.set_dtype(dtype);
    return grant;
  }
  absl::StatusOr<std::shared_ptr<const model::LoadedModel>> Get(ModelCache& cache, const v1::Grant& grant) {
    return cache.Get(
        grant, [](bool) {}, recorder_);
  }
  std::string Weights(const std::string& name) { return roots_.File(name + "/model.safetensors"); }
  std::string Metrics() {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, registry_->Collect());
    return text.str();
  }
  static std::string Message(const absl::Status& status) { return std::string(status.message()); }

  TemporaryDirectory roots_;
  TemporaryDirectory cache_dir_;
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  WorkerMetrics metrics_{registry_};
  SilentRecorder recorder_;
};

// What `cp -p` leaves: other bytes in the same file, size and modification time as before.
void OverwriteInPlace(const std::string& path) {
  struct stat old {};
  ASSERT_EQ(stat(path.c_str(), &old), 0);
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(fd, "\x01", 1, old.st_size - 4), 1);
  close(fd);
  const timespec times[] = {old.st_atim, old.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST_F(ModelCacheTest, LoadsOnceAndSaysSoInItsMetrics) {
  ModelCache cache = Cache();
  const v1::Grant grant = GrantFor("m");
  const auto first = Get(cache, grant);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Get(cache, grant);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->get(), second->get());
  EXPECT_TRUE(cache.CheckUnchanged(grant).ok());
  const std::string metrics = Metrics();
  EXPECT_THAT(metrics, HasSubstr("ropelab_worker_model_loads_total{outcome=\"loaded\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("ropelab_worker_model_load_seconds_count 1\n"));
  const std::string bytes = std::to_string((*first)->bytes);
  EXPECT_THAT(metrics, HasSubstr("ropelab_worker_model_load_bytes_total " + bytes + "\n"));
  EXPECT_THAT(metrics, HasSubstr("ropelab_worker_resident_model_bytes " + bytes + "\n"));
}

TEST_F(ModelCacheTest, WhatReadsNoTextRunsBesideAnyTokenizer) {
  ModelCache cache = Cache();
  v1::Grant grant = GrantFor("m");
  grant.mutable_measurement()->mutable_model()->set_tokenizer_hash(std::string(64, 'a'));
  ASSERT_TRUE(Get(cache, grant).ok());
  grant.mutable_measurement()->mutable_model()->set_config_hash(std::string(64, 'a'));
  EXPECT_THAT(Message(Get(cache, grant).status()), HasSubstr("config.json changed"));
}

TEST_F(ModelCacheTest, AModelLargerThanTheLimitIsRefusedBeforeItIsReadAndPushesNothingOut) {
  const int64_t bytes = *model::ModelBytes(roots_.File("m"), at::kFloat);
  Plant("small", 2);
  ModelCache cache = Cache(bytes - 1);
  ASSERT_TRUE(Get(cache, GrantFor("small", v1::Dtype::BFLOAT16)).ok());
  const v1::Grant grant = GrantFor("m");
  recorder_.asked = 0;
  const auto model = Get(cache, grant);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(model.status()), HasSubstr("need " + std::to_string(bytes) + " bytes"));
  EXPECT_THAT(Message(model.status()), HasSubstr("may use " + std::to_string(bytes - 1)));
  EXPECT_THAT(Message(model.status()), HasSubstr("--memory-limit"));
  EXPECT_EQ(recorder_.asked, 0) << "it was hashed or read";
  EXPECT_THAT(Metrics(), HasSubstr("ropelab_worker_model_loads_total{outcome=\"refused\"} 1\n"));
  EXPECT_THAT(Metrics(), Not(HasSubstr("ropelab_worker_resident_model_bytes 0\n")));
  EXPECT_TRUE(Get(cache, GrantFor("m", v1::Dtype::BFLOAT16)).ok());
}

TEST_F(ModelCacheTest, TheLeastRecentlyUsedModelMakesRoom) {
  const int64_t bytes = *model::ModelBytes(roots_.File("m"), at::kFloat);
  Plant("other", 2);
  ModelCache cache = Cache(bytes + bytes / 2);
  const auto first = Get(cache, GrantFor("m"));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(Get(cache, GrantFor("other")).ok());
  EXPECT_THAT(Metrics(), HasSubstr("ropelab_worker_resident_model_bytes " + std::to_string(bytes) + "\n"));
}

TEST_F(ModelCacheTest, WeightsWrittenInPlaceAreNoticedAfterTheTaskAndRefusedForTheNext) {
  ModelCache cache = Cache();
  const v1::Grant grant = GrantFor("m");
  ASSERT_TRUE(Get(cache, grant).ok());
  OverwriteInPlace(Weights("m"));
  const absl::Status after = cache.CheckUnchanged(grant);
  EXPECT_EQ(after.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Message(after), HasSubstr("model.safetensors="));
  const auto next = Get(cache, grant);
  EXPECT_EQ(next.status().code(), absl::StatusCode::kFailedPrecondition) << "another try would fail as well";
  EXPECT_THAT(Message(next.status()), HasSubstr("the weights (*.safetensors) changed"));
  EXPECT_THAT(Message(next.status()), HasSubstr("model.safetensors="));
}

TEST_F(ModelCacheTest, AReplacedConfigIsRefusedByName) {
  ModelCache cache = Cache();
  const v1::Grant grant = GrantFor("m");
  ASSERT_TRUE(Get(cache, grant).ok());
  std::ifstream in(roots_.File("m/config.json"));
  std::string text(std::istreambuf_iterator<char>(in), {});
  const size_t theta = text.find("10000");
  ASSERT_NE(theta, std::string::npos);
  roots_.Write("m/config.json", text.replace(theta, 5, "20000"));
  const auto next = Get(cache, grant);
  EXPECT_EQ(next.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(next.status()), HasSubstr("config.json changed"));
}

TEST_F(ModelCacheTest, FilesThatWereOnlyTouchedOrLinkedAreTheSameModel) {
  ModelCache cache = Cache();
  const v1::Grant grant = GrantFor("m");
  const auto before = Get(cache, grant);
  ASSERT_TRUE(before.ok()) << before.status();
  std::filesystem::create_hard_link(Weights("m"), roots_.File("backup"));  // moves the ctime
  const auto after = Get(cache, grant);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NE(before->get(), after->get()) << "it must prove by its hash that it is the same";
  EXPECT_TRUE(cache.CheckUnchanged(grant).ok());
}

TEST_F(ModelCacheTest, AFolderThatVanishedIsNotFoundAndALeaseThatWentEndsTheHashing) {
  ModelCache cache = Cache();
  const v1::Grant grant = GrantFor("m");
  recorder_.lease_gone = true;
  EXPECT_EQ(Get(cache, grant).status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Metrics(), HasSubstr("ropelab_worker_model_loads_total{outcome=\"cancelled\"} 1\n"));
  recorder_.lease_gone = false;
  ASSERT_TRUE(Get(cache, grant).ok());
  std::filesystem::remove_all(roots_.File("m"));
  EXPECT_EQ(Get(cache, grant).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ropelab::session
