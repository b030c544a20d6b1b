#include "client/row_filter.h"

#include "client/slice_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/client/add_column.h"

namespace ropelab::client {
namespace {

using testing::HasSubstr;

// Four rows: a score over all depths and over one, of two metrics.
v1::TableSlice Scores() {
  v1::TableSlice slice;
  slice.set_table("head_scores");
  slice.set_rows(4);
  v1::Column* metric = AddColumn(&slice, "metric", v1::Column::TEXT);
  v1::Column* head = AddColumn(&slice, "head", v1::Column::INTEGER);
  v1::Column* depth = AddColumn(&slice, "depth", v1::Column::REAL);
  v1::Column* retrieval = AddColumn(&slice, "retrieval", v1::Column::BOOLEAN);
  for (int row = 0; row < 4; ++row) {
    metric->add_texts(row < 2 ? "argmax" : "mass");
    head->add_integers(row);
    depth->add_reals(row % 2 == 0 ? 0 : 0.1);
    depth->add_null(row % 2 == 0);
    retrieval->add_integers(row == 0 ? 1 : 0);
    retrieval->add_null(row % 2 == 1);
  }
  return slice;
}

std::string Csv(const std::vector<std::string>& conditions) {
  const auto filter = RowFilter::Parse(conditions);
  const auto writer = MakeSliceWriter("csv", *filter);
  const auto text = (*writer)->Add(Scores());
  return text.ok() ? *text : std::string(text.status().message());
}

TEST(RowFilter, KeepsTheRowsThatMeetEveryCondition) {
  const std::string heading = "metric,head,depth,retrieval\n";
  EXPECT_EQ(Csv({"metric=mass"}), heading + "mass,2,,false\nmass,3,0.10000000000000001,\n");
  EXPECT_EQ(Csv({"metric=argmax", "head=1"}), heading + "argmax,1,0.10000000000000001,\n");
  EXPECT_EQ(Csv({"depth=0.10", "metric=mass"}), heading + "mass,3,0.10000000000000001,\n");
  EXPECT_EQ(Csv({"retrieval=true"}), heading + "argmax,0,,true\n");
  EXPECT_EQ(Csv({"head=7"}), heading);
}

TEST(RowFilter, TellsAnEmptyCellFromZero) {
  const std::string heading = "metric,head,depth,retrieval\n";
  EXPECT_EQ(Csv({"depth="}), heading + "argmax,0,,true\nmass,2,,false\n");
  EXPECT_EQ(Csv({"depth=0"}), heading);
  EXPECT_EQ(Csv({"retrieval=false"}), heading + "mass,2,,false\n");
}

TEST(RowFilter, NamesTheColumnsThereAreAndWhatTheyHold) {
  EXPECT_THAT(Csv({"layer=0"}), HasSubstr("no column \"layer\"; it has metric, head, depth, retrieval"));
  EXPECT_THAT(Csv({"head=L1H2"}), HasSubstr("--where head=L1H2: the column holds whole numbers"));
  EXPECT_THAT(Csv({"depth=half"}), HasSubstr("numbers"));
  EXPECT_THAT(Csv({"retrieval=maybe"}), HasSubstr("true and false"));
  for (const char* broken : {"head", "=1", ""}) {
    EXPECT_TRUE(absl::IsInvalidArgument(RowFilter::Parse({broken}).status())) << broken;
  }
}

TEST(RowFilter, CountsTheRowsThatAreShownAndAll) {
  const auto writer = MakeSliceWriter("table", *RowFilter::Parse({"metric=mass"}));
  ASSERT_TRUE((*writer)->Add(Scores()).ok());
  ASSERT_TRUE((*writer)->Add(Scores()).ok());
  EXPECT_THAT((*writer)->Finish(), HasSubstr("(4 of 8 rows)"));
}

}  // namespace
}  // namespace ropelab::client
