#include "worker/train/output_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace ropelab::train {
namespace {

using testing::HasSubstr;

class OutputFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    out_ = testing::TempDir() + "folder_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(out_);
  }
  void Put(const std::string& relative) const {
    std::filesystem::create_directories((out_ / relative).parent_path());
    std::ofstream(out_ / relative) << "here before";
  }
  bool IsThere(const std::string& relative) const { return std::filesystem::exists(out_ / relative); }
  absl::StatusOr<OutputFolder> Claim() const { return OutputFolder::Claim(out_.string(), "tiny"); }

  std::filesystem::path out_;
};

TEST_F(OutputFolderTest, MakesItsFolders) {
  const auto folder = Claim();
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(folder->state(), out_ / "state");
  EXPECT_EQ(folder->model(), out_ / "tiny");
  EXPECT_EQ(folder->checkpoints(), out_ / "checkpoints");
  EXPECT_TRUE(std::filesystem::is_directory(folder->state()));
  EXPECT_TRUE(std::filesystem::is_directory(folder->model()));
  EXPECT_FALSE(IsThere("checkpoints"));
}

TEST_F(OutputFolderTest, RefusesWhatHasNoState) {
  for (const char* file : {"tiny/model.safetensors", "tiny/curve.csv", "checkpoints/checkpoints.csv"}) {
    std::filesystem::remove_all(out_);
    Put(file);
    const auto status = Claim().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(status.message(), HasSubstr((out_ / file).string()));
    EXPECT_THAT(status.message(), HasSubstr("give another --out, or remove " + (out_ / "state").string()));
    EXPECT_FALSE(IsThere("state"));
  }
  Put("state/model.safetensors");
  EXPECT_TRUE(Claim().ok());
}

TEST_F(OutputFolderTest, LeavesAModelOfAnotherNameAlone) {
  Put("other/model.safetensors");
  Put("other/model.safetensors.aB3dEf");
  ASSERT_TRUE(Claim().ok());
  EXPECT_TRUE(IsThere("other/model.safetensors.aB3dEf"));
}

TEST_F(OutputFolderTest, BelongsToOneTrainerAtATime) {
  {
    const auto first = Claim();
    ASSERT_TRUE(first.ok()) << first.status();
    const auto second = Claim().status();
    EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition) << second;
    EXPECT_THAT(second.message(), HasSubstr(out_.string() + ": another ropelab-train writes there"));
  }
  EXPECT_TRUE(Claim().ok());
}

TEST_F(OutputFolderTest, RemovesWhatAKilledTrainerLeft) {
  const char* const litter[] = {"state/model.safetensors.x3Kq9Z", "tiny/curve.csv.AAAAAA",
                                "checkpoints/checkpoints.csv.a00000",
                                "checkpoints/tiny-0050/tokenizer.json.Zzzzzz"};
  const char* const kept[] = {"state/model.safetensors", "tiny/curve.csv.backup",  // a person's
                              "tiny/notes.txt.x3Kq9Z",   "tiny/curve.csv.x3Kq9Z1",
                              "tiny/curve.csv.x3K-9Z",   "checkpoints/mine/config.json.x3Kq9Z"};
  for (const char* file : litter) Put(file);
  for (const char* file : kept) Put(file);
  ASSERT_TRUE(Claim().ok());
  for (const char* file : litter) EXPECT_FALSE(IsThere(file)) << file;
  for (const char* file : kept) EXPECT_TRUE(IsThere(file)) << file;
}

TEST_F(OutputFolderTest, RefusesAPathThatCannotBeAFolder) {
  Put("file");
  const std::string long_name(300, 'n');
  for (const std::string& out : {std::string(), (out_ / "file").string(), (out_ / long_name).string()}) {
    const auto status = OutputFolder::Claim(out, "tiny").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(),
                HasSubstr(out.empty() ? "--out: is empty" : out + "/state: cannot be made"));
  }
  EXPECT_EQ(OutputFolder::Claim(out_.string(), long_name).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(OutputFolderTest, RefusesAModelInItsOwnFolders) {
  for (const char* name : {"state", "checkpoints"}) {
    const auto status = OutputFolder::Claim(out_.string(), name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr(std::string("name: ") + name));
  }
}

}  // namespace
}  // namespace ropelab::train
