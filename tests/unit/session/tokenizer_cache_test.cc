#include "worker/session/tokenizer_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/sha256.h"
#include "tests/unit/measure/text_fakes.h"

namespace ropelab::session {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TokenizerCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("tokenizers-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "toy");
    std::ofstream(root_ / "toy" / "config.json") << "{}";
    Write(json_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& text) { std::ofstream(root_ / "toy" / "tokenizer.json") << text; }
  v1::Grant Grant() const {
    v1::Grant grant;
    grant.set_model("toy");
    grant.mutable_measurement()->mutable_model()->set_tokenizer_hash(Sha256Hex(json_));
    return grant;
  }

  const std::string json_ = measure::ByteTokenizerJson();
  fs::path root_;
};

TEST_F(TokenizerCacheTest, ReadsTheTokenizerOfTheModelOnce) {
  TokenizerCache cache({root_.string()});
  const auto first = cache.Get(Grant()), second = cache.Get(Grant());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->get(), second->get());
  EXPECT_THAT((*first)->Encode("ab", false)->ids, testing::ElementsAre('a', 'b'));
}

TEST_F(TokenizerCacheTest, AChangedFileIsNamed) {
  TokenizerCache cache({root_.string()});
  ASSERT_TRUE(cache.Get(Grant()).ok());
  Write(json_ + " ");
  const absl::Status changed = cache.Get(Grant()).status();
  EXPECT_EQ(changed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(changed.message()), HasSubstr("toy/tokenizer.json changed: the task is on "));
  Write(json_);
  EXPECT_TRUE(cache.Get(Grant()).ok());
  fs::remove(root_ / "toy" / "tokenizer.json");
  EXPECT_THAT(std::string(cache.Get(Grant()).status().message()), HasSubstr("tokenizer.json is gone"));
}

TEST_F(TokenizerCacheTest, AFileThatIsNoTokenizerIsNamed) {
  Write("{}");
  v1::Grant grant = Grant();
  grant.mutable_measurement()->mutable_model()->set_tokenizer_hash(Sha256Hex("{}"));
  EXPECT_THAT(std::string(TokenizerCache({root_.string()}).Get(grant).status().message()),
              HasSubstr("tokenizer.json"));
}

TEST_F(TokenizerCacheTest, AnUnknownModelIsNotFound) {
  v1::Grant grant = Grant();
  grant.set_model("other");
  EXPECT_EQ(TokenizerCache({root_.string()}).Get(grant).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ropelab::session
