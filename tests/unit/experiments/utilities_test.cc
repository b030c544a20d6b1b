#include "server/experiments/utilities.h"

#include <numeric>

#include "fakes.h"
#include "server/experiments/utility_tables.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::QueryRowNorms Norms(int32_t layer, std::vector<double> norms, int64_t heads = 2, int64_t head_dim = 2) {
  v1::QueryRowNorms said;
  said.set_layer(layer);
  said.set_heads(heads);
  said.set_head_dim(head_dim);
  said.mutable_norm()->Add(norms.begin(), norms.end());
  return said;
}

// Two layers of two heads of two dimensions.
Utilities SmallUtilities() {
  Utilities utilities(2, 2, 2);
  EXPECT_TRUE(utilities.Add(Norms(0, {1, 3, 5, 5})).ok());
  EXPECT_TRUE(utilities.Add(Norms(1, {2, 8, 10, 0})).ok());
  return utilities;
}

TEST(Utilities, OfAHeadIsTheMeanOfItsRows) {
  const Utilities utilities = SmallUtilities();
  EXPECT_TRUE(utilities.complete());
  EXPECT_DOUBLE_EQ(utilities.OfDim(1, 0, 1), 8);
  EXPECT_DOUBLE_EQ(utilities.OfHead(0, 0), 2);
  EXPECT_DOUBLE_EQ(utilities.OfHead(1, 1), 5);
  EXPECT_DOUBLE_EQ(utilities.OfModel(), (2 + 5 + 5 + 5) / 4.0);
  EXPECT_THAT(utilities.MeanPerDim(), ElementsAre(18 / 4.0, 16 / 4.0));
}

TEST(Utilities, ChoosesDimensionsAndOfEqualOnesTheFirst) {
  Utilities utilities(1, 1, 5);
  ASSERT_TRUE(utilities.Add(Norms(0, {4, 1, 4, 2, 1}, 1, 5)).ok());
  EXPECT_THAT(utilities.LowestDims(0, 0, 1), ElementsAre(1));
  EXPECT_THAT(utilities.LowestDims(0, 0, 3), ElementsAre(1, 3, 4));
  EXPECT_THAT(utilities.HighestDims(0, 0, 1), ElementsAre(0));
  EXPECT_THAT(utilities.HighestDims(0, 0, 2), ElementsAre(0, 2));
  EXPECT_TRUE(utilities.LowestDims(0, 0, 0).empty());
}

TEST(Utilities, RefusesWhatIsNotTheModels) {
  Utilities utilities(2, 2, 2);
  EXPECT_THAT(utilities.Add(Norms(1, {1, 1, 1, 1})).message(), HasSubstr("where layer 0 is due"));
  EXPECT_THAT(utilities.Add(Norms(0, {1, 1, 1})).message(), HasSubstr("where 2 x 2 are due"));
  EXPECT_THAT(utilities.Add(Norms(0, {1, -1, 1, 1})).message(), HasSubstr("row 1"));
  EXPECT_THAT(utilities.Add(Norms(0, {1, 1, 1, std::numeric_limits<double>::quiet_NaN()})).message(),
              HasSubstr("is a weight not finite?"));
}

TEST(Utilities, ATaskAsksForRowsOfOneModelInItsDtype) {
  v1::ExperimentSpec spec;
  spec.set_dtype(v1::Dtype::FLOAT32);
  const auto task = UtilityTask(spec, ToyModel(), true);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->model, "toy");
  EXPECT_TRUE(task->measurement.weight_profile().query_rows().fold_norm());
  EXPECT_EQ(task->measurement.weight_profile().energy(),
            0);  // a spectrum's field: it would move the task's key
  EXPECT_EQ(task->measurement.model().dtype(), v1::Dtype::FLOAT32);
}

v1::Reading ReadingOf(const v1::QueryRowNorms& norms) {
  v1::Reading reading;
  *reading.mutable_query_row_norms() = norms;
  return reading;
}

TEST(Utilities, AreReadTaskByTaskFromWhereTheyStand) {
  ModelFacts model = ToyModel();
  model.config.set_query_heads(1);
  model.config.set_head_dim(2);
  const Context context = ContextOf({model, model});
  FakeReadings readings;
  readings.Add(2, {}, {v1::Reading()});  // another part's task
  readings.Add(2, {}, {ReadingOf(Norms(0, {1, 1}, 1)), ReadingOf(Norms(1, {2, 2}, 1))});
  readings.Add(2, {}, {ReadingOf(Norms(0, {3, 3}, 1)), ReadingOf(Norms(1, {4, 4}, 1))});
  const auto utilities = ReadUtilities(context, 2, readings, 1);
  ASSERT_TRUE(utilities.ok()) << utilities.status();
  EXPECT_DOUBLE_EQ((*utilities)[0].OfHead(1, 0), 2);
  EXPECT_DOUBLE_EQ((*utilities)[1].OfHead(0, 0), 3);
  EXPECT_THAT(ReadUtilities(context, 2, readings).status().message(), HasSubstr("no query row norms"));
  EXPECT_THAT(ReadUtilities(context, 1, readings).status().message(), HasSubstr("not given for all"));
}

TEST(Utilities, ATableHoldsEveryDimensionAndTheMeanOfEachHead) {
  UtilitiesTable builder("0123456789abcdef");
  builder.Add("toy", "FLOAT32", std::nullopt, SmallUtilities());
  const Table table = builder.Finish();
  EXPECT_EQ(table.slice.table(), "utilities");
  ASSERT_EQ(table.slice.rows(), 2 * 2 * 3);
  const v1::Column& dim = ColumnNamed(table, "dim");
  const v1::Column& utility = ColumnNamed(table, "utility");
  EXPECT_TRUE(NullAt(dim, 0));  // the head's mean comes first
  EXPECT_DOUBLE_EQ(utility.reals(0), 2);
  EXPECT_FALSE(NullAt(dim, 2));
  EXPECT_EQ(dim.integers(2), 1);
  EXPECT_DOUBLE_EQ(utility.reals(2), 3);
}

}  // namespace
}  // namespace ropelab::experiments
