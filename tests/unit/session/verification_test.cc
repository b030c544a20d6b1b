#include "worker/session/verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/unit/formats/temporary_directory.h"
#include "worker/engine/numerics.h"

namespace ropelab::session {
namespace {

using ::testing::HasSubstr;

const std::string kWeights(64, 'a');
const std::string kConfig(64, 'b');

v1::Verification MakeReport() {
  v1::Verification report;
  report.set_passed(false);
  report.set_engine_version(engine::kEngineVersion);
  report.set_device("cpu float32");
  v1::VerifiedFact* fact = report.add_facts();
  fact->set_name("rope_table_short");
  fact->set_value(0.25);
  fact->set_bound(0.5001);
  fact->set_unit("ulp");
  fact->set_where("position 3, pair 1");
  fact->set_passed(true);
  fact = report.add_facts();
  fact->set_name("expected_logits");
  fact->set_value(std::numeric_limits<double>::max());
  fact->set_bound(2e-4);
  return report;
}

class VerificationFile : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteVerification(folder_.path(), kWeights, kConfig, MakeReport()).ok());
    path_ = VerificationPath(folder_.path(), kWeights, kConfig, engine::kEngineVersion);
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    text_ = text.str();
  }
  void Replace(const std::string& text) { std::ofstream(path_) << text; }
  void Substitute(const std::string& from, const std::string& to) {
    std::string changed = text_;
    const size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos);
    Replace(changed.replace(at, from.size(), to));
  }
  bool Readable() { return ReadVerification(folder_.path(), kWeights, kConfig).has_value(); }

  ropelab::unit::TemporaryDirectory folder_;
  std::string path_, text_;
};

TEST_F(VerificationFile, IsNamedAfterWhatItIsOf) {
  EXPECT_EQ(std::filesystem::path(path_).filename().string(),
            "verification-" + kWeights + "-" + kConfig + "-" + engine::kEngineVersion + ".json");
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(VerificationFile, ComesBackAsItWas) {
  const auto report = ReadVerification(folder_.path(), kWeights, kConfig);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->SerializeAsString(), MakeReport().SerializeAsString());
}

TEST_F(VerificationFile, OfAnotherModelIsNone) {
  EXPECT_FALSE(ReadVerification(folder_.path(), std::string(64, 'c'), kConfig).has_value());
  EXPECT_FALSE(ReadVerification(folder_.path(), kWeights, std::string(64, 'c')).has_value());
  EXPECT_FALSE(ReadVerification("", kWeights, kConfig).has_value());
  EXPECT_FALSE(ReadVerification(folder_.path(), "", kConfig).has_value());
}

TEST_F(VerificationFile, UnderAnotherModelsNameIsNone) {
  const std::string other(64, 'c');
  std::filesystem::copy_file(path_, VerificationPath(folder_.path(), other, kConfig, engine::kEngineVersion));
  EXPECT_FALSE(ReadVerification(folder_.path(), other, kConfig).has_value());
}

TEST_F(VerificationFile, DamagedIsNone) {
  for (const std::string& text : {std::string(), std::string("{}"), text_.substr(0, text_.size() / 2),
                                  std::string("[1]"), std::string(200'000, ' ') + text_, text_ + "}"}) {
    Replace(text);
    EXPECT_FALSE(Readable()) << text.substr(0, 100);
  }
  Replace(text_);
  EXPECT_TRUE(Readable());
}

TEST_F(VerificationFile, WithFactsThatDoNotAddUpIsNone) {
  Substitute("\"rope_table_short\"", "\"rope_table_short\", \"pass\": true");
  EXPECT_FALSE(Readable());
  Substitute("\"engine_version\": \"", "\"engine_version\": \"0");
  EXPECT_FALSE(Readable());
  // The whole passed although a fact did not.
  std::string changed = text_;
  const size_t last = changed.rfind("\"passed\": false");
  ASSERT_NE(last, std::string::npos);
  Replace(changed.replace(last, 15, "\"passed\": true"));
  EXPECT_FALSE(Readable());
}

TEST_F(VerificationFile, ReplacesAnOlderOne) {
  v1::Verification report = MakeReport();
  report.mutable_facts()->RemoveLast();
  report.set_passed(true);
  ASSERT_TRUE(WriteVerification(folder_.path(), kWeights, kConfig, report).ok());
  const auto read = ReadVerification(folder_.path(), kWeights, kConfig);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->passed());
}

TEST(WriteVerification, NamesTheFolderThatItCannotWriteTo) {
  const absl::Status status = WriteVerification("/proc/nowhere", kWeights, kConfig, MakeReport());
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/nowhere"));
}

TEST_F(VerificationFile, ANewOneIsSeenWithoutReadingIt) {
  const std::string first = VerificationsStamp(folder_.path());
  EXPECT_THAT(first, HasSubstr(std::filesystem::path(path_).filename().string()));
  EXPECT_EQ(VerificationsStamp(folder_.path()), first);
  folder_.Write("hashes.json", "another file of the cache");
  EXPECT_EQ(VerificationsStamp(folder_.path()), first);
  ASSERT_TRUE(WriteVerification(folder_.path(), kWeights, kConfig, MakeReport()).ok());
  const std::string replaced = VerificationsStamp(folder_.path());
  EXPECT_NE(replaced, first);
  ASSERT_TRUE(WriteVerification(folder_.path(), kWeights, std::string(64, 'd'), MakeReport()).ok());
  EXPECT_NE(VerificationsStamp(folder_.path()), replaced);
  EXPECT_EQ(VerificationsStamp(folder_.path() + "/none"), "");
  EXPECT_EQ(VerificationsStamp(""), "");
}

}  // namespace
}  // namespace ropelab::session
