#include "client/slice_format.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/client/add_column.h"

namespace ropelab::client {
namespace {

// Three rows of every type; the last row is null but for its key.
v1::TableSlice Sample() {
  v1::TableSlice slice;
  slice.set_table("t");
  slice.set_rows(3);
  v1::Column* head = AddColumn(&slice, "head", v1::Column::INTEGER);
  head->add_integers(-3);
  head->add_integers(9007199254740993);  // beyond a double's whole numbers
  head->add_integers(2);
  v1::Column* score = AddColumn(&slice, "score", v1::Column::REAL);
  score->add_reals(0.1);
  score->add_reals(1.0 / 3);
  score->add_reals(0);
  v1::Column* note = AddColumn(&slice, "note", v1::Column::TEXT);
  note->add_texts("plain");
  note->add_texts("a \"b\",\nc");
  note->add_texts("");
  v1::Column* dominant = AddColumn(&slice, "dominant", v1::Column::BOOLEAN);
  dominant->add_integers(1);
  dominant->add_integers(0);
  dominant->add_integers(0);
  for (v1::Column* column : {score, note, dominant}) {
    for (bool null : {false, false, true}) column->add_null(null);
  }
  return slice;
}

std::string Written(const std::string& format, const std::vector<v1::TableSlice>& slices) {
  const auto writer = MakeSliceWriter(format);
  std::string text;
  for (const v1::TableSlice& slice : slices) {
    const auto part = (*writer)->Add(slice);
    EXPECT_TRUE(part.ok()) << part.status();
    text += part.ok() ? *part : "";
  }
  return text + (*writer)->Finish();
}

TEST(SliceFormat, WritesCsvWithQuotesNullsAndSeventeenDigits) {
  EXPECT_EQ(Written("csv", {Sample()}),
            "head,score,note,dominant\n"
            "-3,0.10000000000000001,plain,true\n"
            "9007199254740993,0.33333333333333331,\"a \"\"b\"\",\nc\",false\n"
            "2,,,\n");
}

TEST(SliceFormat, WritesJsonLinesInColumnOrder) {
  EXPECT_EQ(Written("jsonl", {Sample()}),
            "{\"head\":-3,\"score\":0.10000000000000001,\"note\":\"plain\",\"dominant\":true}\n"
            "{\"head\":9007199254740993,\"score\":0.33333333333333331,\"note\":\"a "
            "\\\"b\\\",\\nc\",\"dominant\":false}\n"
            "{\"head\":2,\"score\":null,\"note\":null,\"dominant\":null}\n");
}

TEST(SliceFormat, AlignsATableWithSixDigitsAndARowCount) {
  EXPECT_EQ(Written("table", {Sample()}),
            "            head     score  note      dominant\n"
            "              -3       0.1  plain         true\n"
            "9007199254740993  0.333333  a \"b\", c     false\n"
            "               2         -  -                -\n"
            "(3 rows)\n");
}

TEST(SliceFormat, WritesTheCsvHeadingOnceAcrossSlices) {
  v1::TableSlice one;
  one.set_rows(1);
  AddColumn(&one, "x", v1::Column::INTEGER)->add_integers(1);
  EXPECT_EQ(Written("csv", {one, one}), "x\n1\n1\n");
}

TEST(SliceFormat, WritesTheHeadingOfATableWithoutRows) {
  v1::TableSlice none;
  AddColumn(&none, "x", v1::Column::REAL);
  EXPECT_EQ(Written("csv", {none}), "x\n");
  EXPECT_EQ(Written("jsonl", {none}), "");
  EXPECT_EQ(Written("table", {none}), "x\n(0 rows)\n");
}

TEST(SliceFormat, TellsAnEmptyTextFromANullInCsv) {
  v1::TableSlice slice;
  slice.set_rows(2);
  v1::Column* text = AddColumn(&slice, "a", v1::Column::TEXT);
  text->add_texts("");
  text->add_texts("");
  text->add_null(false);
  text->add_null(true);
  EXPECT_EQ(Written("csv", {slice}), "a\n\"\"\n\n");
}

TEST(SliceFormat, KeepsTheBitsOfExtremeDoubles) {
  v1::TableSlice slice;
  slice.set_rows(5);
  v1::Column* column = AddColumn(&slice, "x", v1::Column::REAL);
  for (double value : {5e-324, 1.7976931348623157e308, -0.0, 1e22, 123456789.123456789})
    column->add_reals(value);
  const std::string text = Written("csv", {slice});
  EXPECT_EQ(text, "x\n4.9406564584124654e-324\n1.7976931348623157e+308\n-0\n1e+22\n123456789.12345679\n");
}

TEST(SliceFormat, TakesDoublesThatAreNotFiniteForUndefined) {
  v1::TableSlice slice;
  slice.set_rows(2);
  v1::Column* column = AddColumn(&slice, "x", v1::Column::REAL);
  column->add_reals(std::numeric_limits<double>::quiet_NaN());
  column->add_reals(std::numeric_limits<double>::infinity());
  EXPECT_EQ(Written("csv", {slice}), "x\n\n\n");
  EXPECT_EQ(Written("jsonl", {slice}), "{\"x\":null}\n{\"x\":null}\n");
}

TEST(SliceFormat, RefusesColumnsThatDoNotFitTheRowCount) {
  v1::TableSlice slice = Sample();
  slice.set_rows(4);
  const auto writer = MakeSliceWriter("csv");
  EXPECT_TRUE(absl::IsDataLoss((*writer)->Add(slice).status()));
}

TEST(SliceFormat, RefusesASliceWithOtherColumns) {
  v1::TableSlice other = Sample();
  other.mutable_columns(1)->set_name("stderr");
  const auto writer = MakeSliceWriter("jsonl");
  ASSERT_TRUE((*writer)->Add(Sample()).ok());
  const auto status = (*writer)->Add(other).status();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("stderr"));
}

TEST(SliceFormat, RefusesAFormatThatIsNotThere) {
  EXPECT_FALSE(MakeSliceWriter("xml").ok());
}

}  // namespace
}  // namespace ropelab::client
