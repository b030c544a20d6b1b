// Rows of corpora, and a database of schema version 1 that is brought up to date.
#include "server/store/corpora.h"

#include "server/store/migrations.h"
#include "tests/unit/store/store_fixture.h"

namespace ropelab::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CorpusRow ACorpus(const std::string& name, const std::string& sha256, int64_t registered_us) {
  CorpusRow row;
  row.name = name;
  row.sha256 = sha256;
  row.kind = "text";
  row.documents = 2;
  row.bytes = 7;
  row.registered_us = registered_us;
  row.place = kInDataDir;
  row.user = "ada";
  return row;
}

class CorporaTest : public StoreTest {
 protected:
  bool Register(const CorpusRow& row) {
    return Write([&](Connection& db) { return RegisterCorpus(db, row); });
  }
  std::vector<CorpusRow> List() {
    return Read([](Connection& db) { return ListCorpora(db); });
  }
  std::vector<std::string> Hashes() {
    std::vector<std::string> hashes;
    for (const CorpusRow& row : List()) hashes.push_back(row.sha256);
    return hashes;
  }
};

TEST_F(CorporaTest, TheLastRegisteredOfANameComesFirst) {
  EXPECT_FALSE(Register(ACorpus("b", "h1", 5)));
  EXPECT_FALSE(Register(ACorpus("b", "h2", 5)));  // the clock stood still
  EXPECT_FALSE(Register(ACorpus("a", "h3", 1)));
  EXPECT_THAT(Hashes(), ElementsAre("h3", "h2", "h1"));
  EXPECT_TRUE(Register(ACorpus("b", "h2", 9))) << "the name means it already";
  EXPECT_EQ(List()[1].registered_us, 6);
  EXPECT_FALSE(Register(ACorpus("b", "h1", 7)));  // back to the first content
  EXPECT_THAT(Hashes(), ElementsAre("h3", "h1", "h2"));
}

TEST_F(CorporaTest, ARowComesBackAsItWasWritten) {
  CorpusRow row = ACorpus("lines", "h", 3);
  row.kind = "jsonl";
  row.place = kInCorporaDir;
  row.path = "/corpora/lines.jsonl";
  row.stamp = "36 1.2 3 4.5";
  row.text_fields = {"text", "question"};
  Register(row);
  const CorpusRow read = List().at(0);
  EXPECT_EQ(read.kind, "jsonl");
  EXPECT_EQ(read.documents, 2);
  EXPECT_EQ(read.bytes, 7);
  EXPECT_EQ(read.path, row.path);
  EXPECT_EQ(read.stamp, row.stamp);
  EXPECT_EQ(read.user, "ada");
  EXPECT_THAT(read.text_fields, ElementsAre("text", "question"));
}

TEST_F(CorporaTest, WhatIsInTheDataDirectoryStaysThere) {
  CorpusRow in_place = ACorpus("moby", "h", 3);
  in_place.place = kInCorporaDir;
  in_place.path = "/corpora/moby.txt";
  in_place.stamp = "s1";
  Register(in_place);
  EXPECT_TRUE(Register(ACorpus("moby", "h", 4)));
  EXPECT_EQ(List().at(0).place, kInDataDir);
  EXPECT_EQ(List().at(0).stamp, "s1") << "so that the file is not read again at the next start";
  in_place.stamp = "s2";
  EXPECT_TRUE(Register(in_place));
  EXPECT_EQ(List().at(0).place, kInDataDir);
  EXPECT_EQ(List().at(0).stamp, "s2");
}

TEST_F(CorporaTest, OneNameHasOneContentInOneKind) {
  Register(ACorpus("a", "h", 1));
  CorpusRow other = ACorpus("a", "h", 2);
  other.kind = "jsonl";
  const absl::Status status = WriteStatus([&](Connection& db) { return RegisterCorpus(db, other).status(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another name"));
}

TEST_F(CorporaTest, ContentIsFoundUnderEveryNameTheDataDirectoryFirst) {
  CorpusRow in_place = ACorpus("a", "h", 1);
  in_place.place = kInCorporaDir;
  Register(in_place);
  Register(ACorpus("b", "h", 2));
  const std::vector<CorpusRow> found = Read([](Connection& db) { return CorporaOfContent(db, "h"); });
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "b");
  EXPECT_EQ(found[1].name, "a");
}

TEST_F(CorporaTest, ADatabaseOfVersionOneOpensAndKeepsItsRows) {
  store_.reset();
  std::filesystem::remove(dir_.path() + "/ropelab.db");
  {
    auto db = Connection::Open(dir_.path() + "/ropelab.db", Connection::Mode::kReadWrite);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE(Migrate(*db, {EmbeddedMigrations().at(0)}).ok());
    ASSERT_TRUE(db->Script("INSERT INTO corpora VALUES('moby', 'old', 12, '/c/moby.txt', 77);"
                           "INSERT INTO measurements(key, body) VALUES('k', x'00');"
                           "INSERT INTO tasks(key, kind, model, weights_hash, measured_for) "
                           "VALUES('k', 'slash_profile', 'tiny', 'w', 1);")
                    .ok());
  }
  Reopen();
  EXPECT_EQ(Number("PRAGMA user_version"), static_cast<int64_t>(EmbeddedMigrations().size()));
  const CorpusRow old = List().at(0);
  EXPECT_EQ(old.name, "moby");
  EXPECT_EQ(old.sha256, "old");
  EXPECT_EQ(old.bytes, 12);
  EXPECT_EQ(old.path, "/c/moby.txt");
  EXPECT_EQ(old.registered_us, 77);
  EXPECT_THAT(store_->corpora().Problem(old), HasSubstr("register it again"));
  EXPECT_EQ(Task(1).weights_hash, "w");
  EXPECT_EQ(Task(1).tokenizer_hash, "");
  EXPECT_FALSE(Register(ACorpus("moby", "new", 1)));
  EXPECT_THAT(Hashes(), ElementsAre("new", "old"));
}

}  // namespace
}  // namespace ropelab::store
