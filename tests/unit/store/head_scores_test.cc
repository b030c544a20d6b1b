#include "server/store/head_scores.h"

#include "tests/unit/store/store_fixture.h"

namespace ropelab::store {
namespace {

using testing::ElementsAre;

class HeadScoresTest : public StoreTest {
 protected:
  bool Register(const std::string& name, const std::string& sha256, int64_t registered_us,
                const std::string& content = "{}") {
    return Write([&](Connection& db) {
      return RegisterHeadScores(db, {name, sha256, "ada", registered_us, content});
    });
  }
  std::string Content(const std::string& name, const std::string& sha256) {
    return Read([&](Connection& db) { return HeadScoreContent(db, name, sha256); });
  }
  std::vector<std::string> Listed() {
    std::vector<std::string> listed;
    for (const HeadScoreRow& row : Read([](Connection& db) { return ListHeadScores(db); })) {
      listed.push_back(row.name + "@" + row.sha256 + " " + Content(row.name, row.sha256));
    }
    return listed;
  }
};

TEST_F(HeadScoresTest, SurviveARestartWithTheirFilesByteForByte) {
  const std::string content("{\"0-0\": [1]}\0\xFF", 14);
  EXPECT_FALSE(Register("published", "aa", 5, content));
  Reopen();
  const auto rows = Read([](Connection& db) { return ListHeadScores(db); });
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(Content("published", "aa"), content);
  EXPECT_EQ(rows[0].owner, "ada");
  EXPECT_EQ(rows[0].registered_us, 5);
}

TEST_F(HeadScoresTest, TheSameAgainChangesNothing) {
  EXPECT_FALSE(Register("published", "aa", 5, "first"));
  EXPECT_TRUE(Register("published", "aa", 9, "first"));
  EXPECT_THAT(Listed(), ElementsAre("published@aa first"));
  EXPECT_EQ(Number("SELECT registered_us FROM head_score_sets"), 5);
}

TEST_F(HeadScoresTest, OtherContentStandsBesideTheFirstAndTheNewestComesFirst) {
  Register("published", "aa", 5, "first");
  EXPECT_FALSE(Register("published", "bb", 5, "second"));  // the clock stood still
  EXPECT_FALSE(Register("published", "00", 2, "third"));   // it went back
  EXPECT_FALSE(Register("other", "aa", 9, "first"));
  EXPECT_THAT(Listed(), ElementsAre("other@aa first", "published@00 third", "published@bb second",
                                    "published@aa first"));
}

TEST_F(HeadScoresTest, WhatIsNotThereIsSaid) {
  const absl::Status status =
      store_->Read([](Connection& db) { return HeadScoreContent(db, "published", "aa").status(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ropelab::store
