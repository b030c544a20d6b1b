#include "server/store/artifact_files.h"

#include <fstream>

#include "tests/unit/store/store_fixture.h"

namespace ropelab::store {
namespace {

using testing::HasSubstr;

class ArtifactFilesTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(files_.RemoveUnfinished().ok()); }
  TempDir dir_;
  ArtifactFiles files_{dir_.path() + "/artifacts"};
};

TEST_F(ArtifactFilesTest, AFileIsNamedByItsContent) {
  const auto name = files_.Put("alpha");
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(*name, kAlphaSha);
  EXPECT_EQ(*files_.Put("alpha"), kAlphaSha);
  EXPECT_TRUE(files_.Has(kAlphaSha));
  EXPECT_FALSE(files_.Has(kBetaSha));
  EXPECT_EQ(*files_.Get(kAlphaSha), "alpha");
  EXPECT_EQ(files_.PathOf(kAlphaSha), dir_.path() + "/artifacts/8e/" + kAlphaSha);
  EXPECT_EQ(*files_.Put(""), kEmptySha);
  EXPECT_EQ(*files_.Get(kEmptySha), "");
}

TEST_F(ArtifactFilesTest, AnUploadInPiecesBecomesAFile) {
  ASSERT_TRUE(files_.Append("u", 0, "al").ok());
  ASSERT_TRUE(files_.Append("u", 2, "pha").ok());
  EXPECT_FALSE(files_.Has(kAlphaSha));
  const auto bytes = files_.Finish("u", kAlphaSha);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, 5);
  EXPECT_EQ(*files_.Get(kAlphaSha), "alpha");
  EXPECT_EQ(*files_.Finish("u", kAlphaSha), 5);  // the answer was lost, the last piece came again
}

TEST_F(ArtifactFilesTest, APieceOutOfPlaceIsRefusedAndARestartBeginsAnew) {
  ASSERT_TRUE(files_.Append("u", 0, "al").ok());
  const absl::Status gap = files_.Append("u", 3, "ha");
  EXPECT_EQ(gap.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(gap.message()), HasSubstr("2"));
  ASSERT_TRUE(files_.Append("u", 0, "be").ok());
  ASSERT_TRUE(files_.Append("u", 2, "ta").ok());
  EXPECT_TRUE(files_.Finish("u", kBetaSha).ok());
}

TEST_F(ArtifactFilesTest, UploadsOfOneFileDoNotMix) {
  ASSERT_TRUE(files_.Append("one", 0, "al").ok());
  ASSERT_TRUE(files_.Append("two", 0, "alp").ok());
  ASSERT_TRUE(files_.Append("one", 2, "pha").ok());
  ASSERT_TRUE(files_.Append("two", 3, "ha").ok());
  EXPECT_TRUE(files_.Finish("one", kAlphaSha).ok());
  EXPECT_TRUE(files_.Finish("two", kAlphaSha).ok());
}

TEST_F(ArtifactFilesTest, AnUploadThatIsNotWhatWasAnnouncedIsThrownAway) {
  ASSERT_TRUE(files_.Append("u", 0, "alphb").ok());
  EXPECT_EQ(files_.Finish("u", kAlphaSha).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(files_.Has(kAlphaSha));
  EXPECT_EQ(files_.Append("u", 5, "x").code(), absl::StatusCode::kOutOfRange);
}

TEST_F(ArtifactFilesTest, ANameThatIsNoHashReachesNoFile) {
  std::ofstream(dir_.path() + "/secret") << "s";
  EXPECT_FALSE(files_.Has("../../secret"));
  EXPECT_EQ(files_.Get("../../secret").status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(files_.Append("../../secret", 0, "x").ok());  // upload names may hold anything
  EXPECT_EQ(files_.Finish("../../secret", "../../secret").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::filesystem::file_size(dir_.path() + "/secret"), 1u);
}

TEST_F(ArtifactFilesTest, AFileThatIsGoneOrDamagedIsNamed) {
  ASSERT_TRUE(files_.Put("alpha").ok());
  EXPECT_TRUE(files_.Check(kAlphaSha).ok());
  std::ofstream(files_.PathOf(kAlphaSha)) << "alphA";
  for (const absl::Status& status : {files_.Get(kAlphaSha).status(), files_.Check(kAlphaSha)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_NE(std::string(status.message()).find(files_.PathOf(kAlphaSha)), std::string::npos) << status;
  }
  std::filesystem::remove(files_.PathOf(kAlphaSha));
  const absl::Status gone = files_.Get(kAlphaSha).status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(std::string(gone.message()).find(files_.PathOf(kAlphaSha)), std::string::npos) << gone;
}

TEST_F(ArtifactFilesTest, ChunksAddUpToTheFile) {
  ASSERT_TRUE(files_.Put("alpha").ok());
  std::vector<std::string> chunks;
  ASSERT_TRUE(files_
                  .ForEachChunk(kAlphaSha, 2,
                                [&](std::string_view chunk) {
                                  chunks.emplace_back(chunk);
                                  return absl::OkStatus();
                                })
                  .ok());
  EXPECT_THAT(chunks, testing::ElementsAre("al", "ph", "a"));
}

TEST_F(ArtifactFilesTest, AStartRemovesWhatUploadsLeftAndKeepsFiles) {
  ASSERT_TRUE(files_.Put("alpha").ok());
  ASSERT_TRUE(files_.Append("u", 0, "be").ok());
  ArtifactFiles restarted(dir_.path() + "/artifacts");
  ASSERT_TRUE(restarted.RemoveUnfinished().ok());
  EXPECT_TRUE(restarted.Has(kAlphaSha));
  EXPECT_EQ(restarted.Append("u", 2, "ta").code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace ropelab::store
