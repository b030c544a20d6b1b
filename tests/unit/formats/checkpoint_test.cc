#include "worker/formats/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/unit/formats/temporary_directory.h"
#include "worker/formats/safetensors_writer.h"

namespace ropelab::formats {
namespace {

using ::ropelab::unit::TemporaryDirectory;
using ::testing::HasSubstr;

const NamedTensor kFirst = {"a.weight", "U8", {2, 2}, "abcd"};
const NamedTensor kSecond = {"b.weight", "BF16", {1}, "xy"};

constexpr char kIndex[] =
    R"({"metadata":{},"weight_map":{"a.weight":"one.safetensors","b.weight":"two.safetensors"}})";

bool Always(int64_t, int64_t) {
  return true;
}

void WriteSingle(const TemporaryDirectory& directory, const std::vector<NamedTensor>& tensors) {
  ASSERT_TRUE(WriteSafetensors(directory.File("model.safetensors"), tensors).ok());
}

void WriteSharded(const TemporaryDirectory& directory) {
  directory.Write("model.safetensors.index.json", kIndex);
  ASSERT_TRUE(WriteSafetensors(directory.File("one.safetensors"), {kFirst}).ok());
  ASSERT_TRUE(WriteSafetensors(directory.File("two.safetensors"), {kSecond}).ok());
}

TEST(Checkpoint, FindsTensorsOfSeveralShards) {
  TemporaryDirectory directory;
  WriteSharded(directory);
  const auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_NE(checkpoint->Find("b.weight"), nullptr);
  EXPECT_EQ(checkpoint->Find("b.weight")->bytes, "xy");
  EXPECT_EQ(checkpoint->Find("b.weight")->file, "two.safetensors");
  EXPECT_EQ(checkpoint->Find("c.weight"), nullptr);
  EXPECT_EQ(checkpoint->bytes(), 6);
}

TEST(Checkpoint, RefusesADirectoryWithoutWeights) {
  TemporaryDirectory directory;
  EXPECT_EQ(Checkpoint::Open(directory.path()).status().code(), absl::StatusCode::kNotFound);
}

TEST(Checkpoint, RefusesAnEmptyShard) {
  TemporaryDirectory directory;
  directory.Write("model.safetensors", "");
  EXPECT_THAT(std::string(Checkpoint::Open(directory.path()).status().message()), HasSubstr("is empty"));
}

TEST(Checkpoint, RefusesAMissingShardByName) {
  TemporaryDirectory directory;
  WriteSharded(directory);
  std::filesystem::remove(directory.File("two.safetensors"));
  EXPECT_THAT(std::string(Checkpoint::Open(directory.path()).status().message()),
              HasSubstr("two.safetensors: no such file, and the index names it; copy the checkpoint again"));
}

TEST(Checkpoint, RefusesANamedPipeWithoutWaitingForAWriter) {
  TemporaryDirectory directory;
  ASSERT_EQ(mkfifo(directory.File("model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(std::string(Checkpoint::Open(directory.path()).status().message()),
              HasSubstr("model.safetensors: is not a regular file"));
  EXPECT_FALSE(WeightsHash(directory.path(), directory.File("cache"), Always).ok());
}

TEST(Checkpoint, RefusesATensorInTwoShards) {
  TemporaryDirectory directory;
  WriteSharded(directory);
  ASSERT_TRUE(WriteSafetensors(directory.File("two.safetensors"), {kSecond, kFirst}).ok());
  EXPECT_THAT(std::string(Checkpoint::Open(directory.path()).status().message()),
              HasSubstr("a.weight is in one.safetensors and in two.safetensors"));
}

TEST(Checkpoint, RefusesAnIndexThatPlacesATensorWrongly) {
  TemporaryDirectory directory;
  WriteSharded(directory);
  ASSERT_TRUE(WriteSafetensors(directory.File("two.safetensors"), {}).ok());
  EXPECT_THAT(std::string(Checkpoint::Open(directory.path()).status().message()),
              HasSubstr("b.weight in two.safetensors"));
}

TEST(Checkpoint, RefusesAnIndexWhoseTensorLiesInAnotherShard) {
  TemporaryDirectory directory;
  WriteSharded(directory);
  ASSERT_TRUE(WriteSafetensors(directory.File("one.safetensors"), {kSecond}).ok());
  ASSERT_TRUE(WriteSafetensors(directory.File("two.safetensors"), {kFirst}).ok());
  EXPECT_THAT(std::string(Checkpoint::Open(directory.path()).status().message()),
              HasSubstr("a.weight in one.safetensors, which does not hold it (two.safetensors does)"));
}

TEST(Checkpoint, RefusesATruncatedShardAndNamesItAndATensor) {
  TemporaryDirectory directory;
  WriteSharded(directory);
  const std::string shard = directory.File("two.safetensors");
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  const std::string message(Checkpoint::Open(directory.path()).status().message());
  EXPECT_THAT(message, HasSubstr("two.safetensors: tensor b.weight"));
  EXPECT_THAT(message, HasSubstr("truncated"));
}

TEST(Checkpoint, RefusesADirectoryInAShardsPlace) {
  TemporaryDirectory directory;
  WriteSharded(directory);
  std::filesystem::remove(directory.File("two.safetensors"));
  std::filesystem::create_directory(directory.File("two.safetensors"));
  EXPECT_THAT(std::string(Checkpoint::Open(directory.path()).status().message()),
              HasSubstr("two.safetensors: is not a regular file"));
}

TEST(Checkpoint, RefusesAnIndexThatIsNoIndex) {
  for (const char* index :
       {R"({"weight_map":{}})", R"({"weight_map":[]})", R"({})", R"({"weight_map":{"a":1}})",
        R"({"weight_map":{"a":"../one.safetensors"}})", R"({"weight_map":{"a":""}})",
        R"({"weight_map":{"a":"x","a":"y"}})", R"({"weight_map":)"}) {
    TemporaryDirectory directory;
    directory.Write("model.safetensors.index.json", index);
    const absl::Status status = Checkpoint::Open(directory.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << index;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.safetensors.index.json")) << index;
  }
}

// The value is what sha256sum says of the text in the comment, written out by hand.
TEST(WeightsHash, IsTheSha256OfNamesDtypesShapesAndBytes) {
  TemporaryDirectory directory;
  WriteSingle(directory, {kFirst});
  // printf '8:a.weight;U8;[2,2];4\nabcd' | sha256sum
  EXPECT_EQ(*WeightsHash(directory.path(), "", Always),
            "d62016ff8d69a259986728c84ee9f000282f2f57f2409809958cd4a4d524ad75");
}

TEST(WeightsHash, IsIndependentOfShardingAndOrder) {
  TemporaryDirectory single;
  TemporaryDirectory swapped;
  TemporaryDirectory sharded;
  WriteSingle(single, {kFirst, kSecond});
  WriteSingle(swapped, {kSecond, kFirst});
  WriteSharded(sharded);
  const auto hash = WeightsHash(single.path(), "", Always);
  ASSERT_TRUE(hash.ok()) << hash.status();
  EXPECT_EQ(*hash, *WeightsHash(swapped.path(), "", Always));
  EXPECT_EQ(*hash, *WeightsHash(sharded.path(), "", Always));
}

TEST(WeightsHash, DependsOnNameDtypeShapeAndBytes) {
  const NamedTensor variants[] = {{"c.weight", "U8", {2, 2}, "abcd"},
                                  {"a.weight", "I8", {2, 2}, "abcd"},
                                  {"a.weight", "U8", {4}, "abcd"},
                                  {"a.weight", "U8", {2, 2}, "abce"}};
  TemporaryDirectory directory;
  WriteSingle(directory, {kFirst});
  const auto hash = WeightsHash(directory.path(), "", Always);
  for (const NamedTensor& variant : variants) {
    TemporaryDirectory other;
    WriteSingle(other, {variant});
    EXPECT_NE(*hash, *WeightsHash(other.path(), "", Always));
  }
}

TEST(WeightsHash, StopsWhenAsked) {
  TemporaryDirectory directory;
  WriteSingle(directory, {kFirst});
  const auto hash = WeightsHash(directory.path(), "", [](int64_t, int64_t) { return false; });
  EXPECT_EQ(hash.status().code(), absl::StatusCode::kCancelled);
}

TEST(TokenizerHash, IsEmptyWithoutATokenizerAndSha256Otherwise) {
  TemporaryDirectory directory;
  EXPECT_EQ(*TokenizerHash(directory.path()), "");
  directory.Write("tokenizer.json", "abc");  // FIPS 180-2, example B.1
  EXPECT_EQ(*TokenizerHash(directory.path()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DirectoryStamp, ChangesWithAFileAndIsOneLine) {
  TemporaryDirectory directory;
  WriteSharded(directory);
  const auto before = DirectoryStamp(directory.path());
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->find('\n'), std::string::npos);
  EXPECT_EQ(*before, *DirectoryStamp(directory.path()));
  directory.Write("config.json", "{}");
  const auto with_config = DirectoryStamp(directory.path());
  EXPECT_NE(*before, *with_config);
  std::filesystem::last_write_time(directory.File("two.safetensors"),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const auto older = DirectoryStamp(directory.path());
  EXPECT_NE(*with_config, *older);
  // Written in place, and the old time set back.
  const auto modified = std::filesystem::last_write_time(directory.File("two.safetensors"));
  ASSERT_TRUE(WriteSafetensors(directory.File("two.safetensors"), {kSecond}).ok());
  std::filesystem::last_write_time(directory.File("two.safetensors"), modified);
  EXPECT_NE(*older, *DirectoryStamp(directory.path()));
}

}  // namespace
}  // namespace ropelab::formats
