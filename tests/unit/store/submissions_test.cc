#include "tests/unit/store/store_fixture.h"

namespace ropelab::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SubmissionsTest : public StoreTest {
 protected:
  absl::StatusOr<SubmittedIds> Submit(const std::string& owner, const std::string& request,
                                      const std::string& hash, const std::vector<ExperimentRow>& rows,
                                      bool is_study = false) {
    absl::StatusOr<SubmittedIds> ids = absl::UnknownError("not run");
    const absl::Status status = store_->WriteAndWait([&](Connection& db) {
      ids = InsertSubmission(db, owner, request, hash, is_study, "table 1", rows);
      return ids.status();
    });
    if (!status.ok()) return status;
    return ids;
  }
};

TEST_F(SubmissionsTest, TheSameRequestAgainGivesTheFirstAnswerAndInsertsNothing) {
  const auto first = Submit("ada", "r1", "h", {AnExperiment("a"), AnExperiment("b")}, true);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->already_submitted);
  Reopen();
  const auto again = Submit("ada", "r1", "h", {AnExperiment("a"), AnExperiment("b")}, true);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->already_submitted);
  EXPECT_EQ(again->experiment_ids, first->experiment_ids);
  EXPECT_EQ(again->study_id, first->study_id);
  EXPECT_EQ(Number("SELECT COUNT(*) FROM experiments"), 2);
  EXPECT_EQ(Number("SELECT COUNT(*) FROM studies"), 1);
  EXPECT_EQ(Read([&](Connection& db) { return ExperimentsOfStudy(db, first->study_id); }),
            first->experiment_ids);
}

TEST_F(SubmissionsTest, AnotherSpecUnderAUsedRequestIdIsRefused) {
  ASSERT_TRUE(Submit("ada", "r1", "h", {AnExperiment("a")}).ok());
  const auto other = Submit("ada", "r1", "other hash", {AnExperiment("b")});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("r1"));
  EXPECT_EQ(Number("SELECT COUNT(*) FROM experiments"), 1);
}

TEST_F(SubmissionsTest, RequestIdsBelongToTheirOwner) {
  const auto ada = Submit("ada", "r1", "h", {AnExperiment("a")});
  const auto bob = Submit("bob", "r1", "h", {AnExperiment("a")});
  ASSERT_TRUE(ada.ok() && bob.ok());
  EXPECT_NE(ada->experiment_ids, bob->experiment_ids);
}

TEST_F(SubmissionsTest, RefusesAnEmptyRequestId) {
  EXPECT_EQ(Submit("ada", "", "h", {AnExperiment("a")}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SubmissionsTest, KeepsEveryFieldOfAnExperiment) {
  ExperimentRow row = AnExperiment("a");
  row.owner_verified = true;
  row.spec = std::string("a\0b", 3);
  row.models = "tiny@w\nlarge@";
  row.tags = "x\ny";
  row.warnings = "careful";
  row.reason = "waits";
  const auto ids = Submit("ada", "r1", "h", {row});
  ASSERT_TRUE(ids.ok());
  const ExperimentRow stored =
      Read([&](Connection& db) { return GetExperiment(db, ids->experiment_ids[0]); });
  EXPECT_EQ(stored.name, "a");
  EXPECT_EQ(stored.owner, "ada");
  EXPECT_TRUE(stored.owner_verified);
  EXPECT_EQ(stored.spec, row.spec);
  EXPECT_EQ(stored.typed_spec, "typed");
  EXPECT_EQ(stored.models, row.models);
  EXPECT_EQ(stored.tags, row.tags);
  EXPECT_EQ(stored.warnings, row.warnings);
  EXPECT_EQ(stored.reason, row.reason);
  EXPECT_EQ(stored.submitted_us, 1000);
  EXPECT_EQ(stored.numerics_class, "");
}

TEST_F(SubmissionsTest, ListsNewestFirstAndFilters) {
  ExperimentRow tagged = AnExperiment("b");
  tagged.tags = "paper\nfinal";
  tagged.models = "tiny@abc";
  const auto first = Submit("ada", "r1", "h", {AnExperiment("a"), tagged});
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(Submit("bob", "r1", "h", {AnExperiment("c")}).ok());
  const auto names = [&](const ExperimentFilter& filter) {
    std::vector<std::string> found;
    for (const ExperimentRow& row : Read([&](Connection& db) { return ListExperiments(db, filter); })) {
      found.push_back(row.name);
    }
    return found;
  };
  EXPECT_THAT(names({}), ElementsAre("c", "b", "a"));
  EXPECT_THAT(names({.limit = 2}), ElementsAre("c", "b"));
  EXPECT_THAT(names({.owner = "ada"}), ElementsAre("b", "a"));
  EXPECT_THAT(names({.tag = "final"}), ElementsAre("b"));
  EXPECT_THAT(names({.tag = "fin"}), IsEmpty());
  EXPECT_THAT(names({.model = "tiny"}), ElementsAre("b"));
  EXPECT_THAT(names({.model = "tiny@abc"}), ElementsAre("b"));
  EXPECT_THAT(names({.model = "tin"}), IsEmpty());
}

TEST_F(SubmissionsTest, AFinalStateStaysFinal) {
  const auto ids = Submit("ada", "r1", "h", {AnExperiment("a")});
  ASSERT_TRUE(ids.ok());
  const int64_t id = ids->experiment_ids[0];
  const auto set = [&](const std::string& state, int64_t now_us) {
    return Write([&](Connection& db) { return SetExperimentState(db, id, state, "because", now_us); });
  };
  EXPECT_TRUE(set("running", 2000));
  EXPECT_TRUE(set("running", 2500));
  EXPECT_TRUE(set("cancelled", 3000));
  EXPECT_FALSE(set("done", 4000));
  const ExperimentRow row = Read([&](Connection& db) { return GetExperiment(db, id); });
  EXPECT_EQ(row.state, "cancelled");
  EXPECT_EQ(row.started_us, 2000);
  EXPECT_EQ(row.finished_us, 3000);
  EXPECT_THAT(Read([](Connection& db) { return UnfinishedExperiments(db); }), IsEmpty());
}

TEST_F(SubmissionsTest, AnUnknownExperimentIsNotFoundByItsName) {
  const absl::Status status = store_->Read([](Connection& db) { return GetExperiment(db, 12).status(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("e12"));
}

}  // namespace
}  // namespace ropelab::store
