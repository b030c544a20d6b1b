// Threads, names, addresses: what the process settles before it connects.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "worker/session/credentials.h"
#include "worker/session/model_scan.h"
#include "worker/session/threads.h"
#include "worker/session/worker_id.h"

namespace ropelab::session {
namespace {

std::string NewDirectory(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

bool Has(const std::vector<std::string>& environment, const std::string& setting) {
  return std::find(environment.begin(), environment.end(), setting) != environment.end();
}

TEST(Threads, AreReadFromTheCommandLine) {
  const char* split[] = {"ropelab-worker", "--server", "x", "--threads", "3"};
  EXPECT_EQ(ThreadsOfCommandLine(5, split, 8), 3);
  const char* joined[] = {"ropelab-worker", "--threads=5"};
  EXPECT_EQ(ThreadsOfCommandLine(2, joined, 8), 5);
  const char* wrong[] = {"ropelab-worker", "--threads", "many"};
  EXPECT_EQ(ThreadsOfCommandLine(3, wrong, 8), 8);
  const char* cut[] = {"ropelab-worker", "--threads"};
  EXPECT_EQ(ThreadsOfCommandLine(2, cut, 8), 8);
}

TEST(Threads, TheEnvironmentGetsOurCountsAndKeepsOthersChoices) {
  const std::vector<std::string> tuned =
      TunedEnvironment({"OMP_NUM_THREADS=64", "OMP_WAIT_POLICY=active", "HOME=/root"}, 2, true);
  EXPECT_TRUE(Has(tuned, "OMP_NUM_THREADS=2"));
  EXPECT_FALSE(Has(tuned, "OMP_NUM_THREADS=64"));
  EXPECT_TRUE(Has(tuned, "OPENBLAS_NUM_THREADS=2"));
  EXPECT_TRUE(Has(tuned, "OMP_WAIT_POLICY=active"));
  EXPECT_TRUE(Has(tuned, "MALLOC_MMAP_MAX_=0"));
  EXPECT_TRUE(Has(tuned, "ATEN_CPU_CAPABILITY=avx512"));
  EXPECT_TRUE(Has(tuned, "HOME=/root"));
}

TEST(Threads, ATunedEnvironmentIsLeftAsItIs) {
  const std::vector<std::string> once = TunedEnvironment({}, 4, false);
  std::vector<std::string> twice = TunedEnvironment(once, 4, false);
  EXPECT_EQ(std::vector<std::string>(once).size(), twice.size());
  for (const std::string& setting : once) EXPECT_TRUE(Has(twice, setting)) << setting;
  for (const std::string& setting : once) EXPECT_EQ(setting.find("ATEN_CPU_CAPABILITY"), std::string::npos);
}

TEST(WorkerId, TwoWorkersOfAHostGetDifferentNumbersAndAFreedOneIsTakenAgain) {
  const std::string locks = NewDirectory("worker_id_locks");
  auto first = WorkerId::Claim("", "cpu", locks);
  ASSERT_TRUE(first.ok());
  const std::string name = first->name();
  EXPECT_EQ(name.substr(name.size() - 6), "/cpu/0");
  {
    const auto second = WorkerId::Claim("", "cpu", locks);
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second->name().substr(second->name().size() - 6), "/cpu/1");
    const auto other = WorkerId::Claim("", "cuda:0", locks);
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(other->name().substr(other->name().size() - 9), "/cuda:0/0");
  }
  const auto again = WorkerId::Claim("", "cpu", locks);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->name().substr(again->name().size() - 6), "/cpu/1");
}

TEST(WorkerId, AGivenNameNeedsNoLock) {
  const auto id = WorkerId::Claim("gpu-box", "cpu", "/nonexistent");
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(id->name(), "gpu-box");
  EXPECT_FALSE(WorkerId::Claim("", "cpu", "/nonexistent").ok());
}

TEST(Credentials, PlainTextStaysOnThisHostUnlessSaidAloud) {
  EXPECT_TRUE(IsLoopback("127.0.0.1:7400"));
  EXPECT_TRUE(IsLoopback("localhost:7400"));
  EXPECT_TRUE(IsLoopback("[::1]:7400"));
  EXPECT_FALSE(IsLoopback("10.0.0.1:7400"));
  EXPECT_TRUE(MakeCredentials({"127.0.0.1:7400", "", false}).ok());
  const auto refused = MakeCredentials({"lab.example:7400", "", false});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(MakeCredentials({"lab.example:7400", "", true}).ok());
  EXPECT_FALSE(MakeCredentials({"lab.example:7400", "/nonexistent.pem", false}).ok());
}

TEST(Credentials, ATokenIsReadWithoutItsNewline) {
  const std::string path = NewDirectory("token") + "/token";
  std::ofstream(path) << "  secret\n";
  EXPECT_EQ(ReadToken(path).value(), "secret");
  EXPECT_FALSE(ReadToken(path + "-none").ok());
}

TEST(ModelScan, FindsDirectoriesWithAConfigAndAnnouncesWhatDoesNotParse) {
  const std::string root = NewDirectory("models");
  std::filesystem::create_directories(root + "/broken");
  std::ofstream(root + "/broken/config.json") << "{";
  std::filesystem::create_directories(root + "/not_a_model");
  const auto found = FindModels({root});
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].name, "broken");
  const v1::ModelAnnouncement announcement = Announce((*found)[0], "");
  EXPECT_EQ(announcement.name(), "broken");
  EXPECT_NE(announcement.problem(), "");
  EXPECT_FALSE(FindModels({root + "/none"}).ok());
}

TEST(ModelScan, ANameOverTheWireNeverLeavesTheRoots) {
  const std::string root = NewDirectory("roots/inner");
  std::ofstream(root + "/../config.json") << "{}";
  EXPECT_FALSE(FindModel({root}, "..").ok());
  EXPECT_FALSE(FindModel({root}, "../inner").ok());
  EXPECT_FALSE(FindModel({root}, "").ok());
}

}  // namespace
}  // namespace ropelab::session
