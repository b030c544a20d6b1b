#include "server/experiments/table_builder.h"

#include "fakes.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TableBuilder Small() {
  return TableBuilder("small", {{"name", v1::Column::TEXT, true},
                                {"at", v1::Column::REAL, true},
                                {"yes", v1::Column::BOOLEAN, false},
                                {"n", v1::Column::INTEGER, false}});
}

TEST(TableBuilder, SortsByKeysWithNullFirstAndTextByBytes) {
  TableBuilder builder = Small();
  builder.Text("b").Real(2.0).Boolean(true).Integer(1);
  builder.Text("a").Real(10.0).Boolean(false).Integer(2);
  builder.Text("a").Real(std::nullopt).Boolean(std::nullopt).Integer(3);
  builder.Text("Z").Real(0.0).Boolean(true).Integer(4);
  builder.Text("a").Real(9.0).Boolean(true).Integer(5);
  const Table table = builder.Finish(true);
  EXPECT_EQ(table.slice.rows(), 5);
  EXPECT_THAT(ColumnNamed(table, "n").integers(), ElementsAre(4, 3, 5, 2, 1));
  EXPECT_THAT(ColumnNamed(table, "name").texts(), ElementsAre("Z", "a", "a", "a", "b"));
  EXPECT_THAT(ColumnNamed(table, "at").reals(), ElementsAre(0, 0, 9, 10, 2));
  EXPECT_THAT(ColumnNamed(table, "at").null(), ElementsAre(false, true, false, false, false));
  EXPECT_THAT(ColumnNamed(table, "yes").integers(), ElementsAre(1, 0, 1, 0, 1));
  EXPECT_THAT(ColumnNamed(table, "n").null(), IsEmpty());
}

TEST(TableBuilder, TheRowsOfSqlMoveWithTheirRows) {
  TableBuilder builder = Small();
  builder.Text("c").Real(0.0).Boolean(true).Integer(1);
  builder.KeepLastRowInSql();
  builder.Text("b").Real(0.0).Boolean(true).Integer(2);
  builder.Text("a").Real(0.0).Boolean(true).Integer(3);
  builder.KeepLastRowInSql();
  const Table table = builder.Finish(false);
  EXPECT_THAT(table.sql_rows, ElementsAre(0, 2));
}

}  // namespace
}  // namespace ropelab::experiments
