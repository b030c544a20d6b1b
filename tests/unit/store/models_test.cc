#include "server/store/models.h"

#include <filesystem>

#include "server/store/migrations.h"
#include "tests/unit/store/store_fixture.h"

namespace ropelab::store {
namespace {

using testing::ElementsAre;

class ModelsTest : public StoreTest {
 protected:
  void Record(const std::string& weights_hash, const std::string& worker, int64_t now_us,
              const std::string& config_hash = "c", const std::string& tokenizer_hash = "") {
    v1::ModelAnnouncement announcement;
    announcement.set_name("tiny");
    announcement.set_config_hash(config_hash);
    announcement.set_weights_hash(weights_hash);
    announcement.set_tokenizer_hash(tokenizer_hash);
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

// "weights/tokenizer" of each.
std::vector<std::string> Hashes(const std::vector<ModelRow>& models) {
  std::vector<std::string> hashes;
  for (const ModelRow& model : models) {
    hashes.push_back(model.announcement.weights_hash() + "/" + model.announcement.tokenizer_hash());
  }
  return hashes;
}

TEST_F(ModelsTest, EqualWeightsBesideDifferentTokenizersAreTwoModels) {
  Record("h", "w1", 1, "c", "t");
  Record("h", "w2", 2, "c", "u");
  Record("h", "w1", 3, "c", "t");
  EXPECT_THAT(Hashes(Known()), ElementsAre("h/t", "h/u"));
  EXPECT_EQ(Known().at(0).last_worker, "w1");
  EXPECT_EQ(Known().at(1).last_worker, "w2");
  EXPECT_THAT(Hashes(WithoutReplaced(Known())), ElementsAre("h/t", "h/u"));
}

TEST_F(ModelsTest, AnAnnouncementWithoutAHashIsTakenForNoModelOfAnotherTokenizer) {
  Record("h", "w1", 1, "c", "t");
  Record("", "w2", 2, "c", "u");
  EXPECT_THAT(Hashes(Known()), ElementsAre("/u", "h/t"));
  Record("i", "w2", 3, "c", "u");
  EXPECT_THAT(Hashes(Known()), ElementsAre("h/t", "i/u"));
}

TEST_F(ModelsTest, ATokenizerThatItsOwnWorkerExchangedIsReplacedOnceNobodyElseHoldsIt) {
  Record("h", "w1", 1, "c", "t");
  Record("h", "w2", 2, "c", "t");
  Record("h", "w1", 3, "c", "u");
  EXPECT_THAT(Hashes(WithoutReplaced(Known())), ElementsAre("h/t", "h/u")) << "w2 was the last to hold t";
  Record("h", "w2", 4, "c", "u");
  EXPECT_THAT(Hashes(WithoutReplaced(Known())), ElementsAre("h/u"));
  EXPECT_EQ(Known().size(), 2u) << "an experiment may have been planned with t";
}

TEST_F(ModelsTest, AVerificationIsOfTheWeightsWhateverTokenizerLiesBesideThem) {
  v1::ModelAnnouncement announcement;
  announcement.set_name("tiny");
  announcement.set_config_hash("c");
  announcement.set_weights_hash("h");
  announcement.mutable_verification()->set_passed(true);
  ASSERT_TRUE(WriteStatus([&](Connection& db) { return RecordModel(db, announcement, "w1", 1); }).ok());
  Record("h", "w2", 2, "c", "t");
  EXPECT_TRUE(Known().at(1).announcement.verification().passed());
}

TEST_F(ModelsTest, ADatabaseOfVersionTwoOpensAndKeepsItsRows) {
  store_.reset();
  std::filesystem::remove(dir_.path() + "/ropelab.db");
  const std::string tokenizer(64, 't');
  {
    auto db = Connection::Open(dir_.path() + "/ropelab.db", Connection::Mode::kReadWrite);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE(Migrate(*db, {EmbeddedMigrations().at(0), EmbeddedMigrations().at(1)}).ok());
    const auto insert = [&](const std::string& name, const std::string& config, const std::string& of_text) {
      v1::ModelAnnouncement announcement;
      announcement.set_name(name);
      announcement.set_config_hash(config);
      announcement.set_tokenizer_hash(of_text);
      announcement.set_weights_hash(std::string(64, 'w'));
      announcement.set_bytes(10);
      const std::string bytes = announcement.SerializeAsString();
      ASSERT_TRUE(db->Execute("INSERT INTO models VALUES(?, ?, ?, 10, 7, 'w1', ?)",
                              {name, config, announcement.weights_hash(), Blob{bytes}})
                      .ok());
    };
    insert("with", std::string(64, 'c'), tokenizer);
    insert("without", std::string(64, 'c'), "");
    insert("unread", "", "");  // what could not be loaded has no config
    insert(std::string(200, 'n'), std::string(64, 'c'), tokenizer);
    insert("n\xC3\xA4me", std::string(64, 'c'), tokenizer);
    ASSERT_TRUE(db->Script("INSERT INTO measurements(key, body) VALUES('k', x'00');"
                           "INSERT INTO tasks(key, kind, model, weights_hash, tokenizer_hash, measured_for) "
                           "VALUES('k', 'slash_profile', 'tiny', 'w', 't', 1);")
                    .ok());
  }
  Reopen();
  EXPECT_EQ(Number("PRAGMA user_version"), static_cast<int64_t>(EmbeddedMigrations().size()));
  EXPECT_EQ(Known().size(), 5u);
  EXPECT_EQ(Number("SELECT COUNT(*) FROM models WHERE tokenizer_hash = '" + tokenizer + "'"), 3);
  EXPECT_EQ(Number("SELECT COUNT(*) FROM models WHERE tokenizer_hash = '' AND name IN ('without', 'unread')"),
            2);
  EXPECT_EQ(
      Number("SELECT COUNT(*) FROM models WHERE last_seen_us = 7 AND last_worker = 'w1' AND bytes = 10"), 5);
  const TaskRow task = Read([](Connection& db) { return GetTask(db, 1); });
  EXPECT_EQ(task.weights_hash + task.tokenizer_hash + task.config_hash, "wt");
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
