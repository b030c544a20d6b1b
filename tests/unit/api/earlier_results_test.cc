// What an experiment reads of another one's tables.
#include "server/api/earlier_results.h"

#include "server/experiments/head_set.h"
#include "server/store/results.h"
#include "tests/unit/api/coordinator_fixture.h"

namespace ropelab::api {
namespace {

class EarlierResultsTest : public CoordinatorTest {};

TEST_F(EarlierResultsTest, HoldTheHeadsOfADetectionThatIsDone) {
  FakeWorker worker = ConnectedWorker("w");
  const int64_t experiment = Submit("r", 8);
  ASSERT_EQ(FinishUntilFinal(worker, experiment), 1);
  ASSERT_EQ(Row(experiment).state, "done");
  const auto earlier = ReadEarlier(*store_, {{"detect", experiment}});
  ASSERT_TRUE(earlier.ok()) << earlier.status();
  ASSERT_EQ(earlier->size(), 1u);
  EXPECT_EQ((*earlier)[0].name, "detect");
  EXPECT_EQ((*earlier)[0].result_digest, Row(experiment).result_digest);
  ASSERT_EQ((*earlier)[0].tables.size(), 1u);
  v1::TableSlice whole;
  ASSERT_TRUE(store_
                  ->Read([&](store::Connection& db) {
                    return store::ReadTable(db, store_->artifacts(), experiment, "slash_heads",
                                            [&](const v1::TableSlice& slice) {
                                              whole = slice;
                                              return absl::OkStatus();
                                            });
                  })
                  .ok());
  EXPECT_GT(whole.rows(), 0);
  EXPECT_EQ((*earlier)[0].tables[0].SerializeAsString(), whole.SerializeAsString());
}

TEST_F(EarlierResultsTest, NameAnExperimentThatIsNotThere) {
  const absl::Status status = ReadEarlier(*store_, {{"detect", 77}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ropelab::api
