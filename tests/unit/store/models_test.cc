#include "server/store/models.h"

#include "tests/unit/store/store_fixture.h"

namespace ropelab::store {
namespace {

using testing::ElementsAre;

class ModelsTest : public StoreTest {
 protected:
  void Record(const std::string& weights_hash, const std::string& worker, int64_t now_us,
              const std::string& config_hash = "c") {
    v1::ModelAnnouncement announcement;
    announcement.set_name("tiny");
    announcement.set_config_hash(config_hash);
    announcement.set_weights_hash(weights_hash);
    announcement.set_bytes(10);
    ASSERT_TRUE(
        WriteStatus([&](Connection& db) { return RecordModel(db, announcement, worker, now_us); }).ok());
  }
  std::vector<ModelRow> Known() {
    return Read([](Connection& db) { return KnownModels(db); });
  }
};

TEST_F(ModelsTest, AHashThatBecomesKnownFillsTheRowThatLacksIt) {
  Record("", "w1", 1);
  EXPECT_EQ(Known().at(0).announcement.weights_hash(), "");
  Record("h", "w1", 2);
  const std::vector<ModelRow> known = Known();
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known[0].announcement.weights_hash(), "h");
  EXPECT_EQ(known[0].last_seen_us, 2);
}

TEST_F(ModelsTest, AnAnnouncementWithoutAHashIsTheModelSeenLast) {
  Record("h", "w1", 1);
  Record("", "w2", 2);
  const std::vector<ModelRow> known = Known();
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known[0].announcement.weights_hash(), "h");
  EXPECT_EQ(known[0].last_worker, "w2");
}

TEST_F(ModelsTest, AVerificationBelongsToTheWeightsAndStays) {
  v1::ModelAnnouncement announcement;
  announcement.set_name("tiny");
  announcement.set_config_hash("c");
  announcement.set_weights_hash("h");
  announcement.mutable_verification()->set_passed(true);
  ASSERT_TRUE(WriteStatus([&](Connection& db) { return RecordModel(db, announcement, "w1", 1); }).ok());
  Record("h", "w2", 2);
  Record("", "w2", 3);
  EXPECT_TRUE(Known().at(0).announcement.verification().passed());
  announcement.mutable_verification()->set_passed(false);
  ASSERT_TRUE(WriteStatus([&](Connection& db) { return RecordModel(db, announcement, "w1", 4); }).ok());
  EXPECT_FALSE(Known().at(0).announcement.verification().passed());
  Record("i", "w2", 5);
  ASSERT_EQ(Known().size(), 2u);
  EXPECT_FALSE(Known().at(1).announcement.has_verification()) << "other weights";
}

TEST_F(ModelsTest, OneNameMayHaveTwoHashesOrConfigs) {
  Record("h", "w1", 1);
  Record("i", "w2", 2);
  Record("", "w2", 3, "other config");
  EXPECT_EQ(Known().size(), 3u);
}

TEST_F(ModelsTest, WorkersAndTheirNumericsClassesAreRemembered) {
  v1::Hello hello;
  hello.set_worker_id("w1");
  hello.mutable_numerics()->set_hash("0123456789abcdef");
  hello.mutable_numerics()->add_ingredients("engine=1");
  hello.mutable_numerics()->add_ingredients("threads=2");
  for (int64_t epoch : {1, 2}) {
    ASSERT_TRUE(
        WriteStatus([&](Connection& db) { return RecordWorker(db, hello, epoch, 100 * epoch); }).ok());
  }
  EXPECT_EQ(Number("SELECT COUNT(*) FROM workers"), 1);
  EXPECT_EQ(Number("SELECT first_seen_us FROM workers"), 100);
  EXPECT_EQ(Number("SELECT last_seen_us FROM workers"), 200);
  const v1::NumericsClass numerics =
      Read([](Connection& db) { return GetNumericsClass(db, "0123456789abcdef"); });
  EXPECT_THAT(numerics.ingredients(), ElementsAre("engine=1", "threads=2"));
  EXPECT_EQ(store_->Read([](Connection& db) { return GetNumericsClass(db, "f").status(); }).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ModelsTest, AuditKeepsWhoDidWhat) {
  ASSERT_TRUE(WriteStatus([](Connection& db) { return RecordAudit(db, "ada", "cancel", "e1", 5); }).ok());
  EXPECT_EQ(Number("SELECT COUNT(*) FROM audit WHERE user = 'ada' AND action = 'cancel' AND subject = 'e1'"),
            1);
}

}  // namespace
}  // namespace ropelab::store
