#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/store/results.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/store/store_fixture.h"

namespace ropelab::store {
namespace {

using testing::HasSubstr;

v1::Column* AddColumn(v1::TableSlice& slice, const std::string& name, v1::Column::Type type,
                      bool key = false) {
  v1::Column* column = slice.add_columns();
  column->set_name(name);
  column->set_type(type);
  column->set_key(key);
  return column;
}

// series(model, dtype, numerics_class, name, x, y) with these y's, x counting from 0.
v1::TableSlice Series(const std::vector<double>& ys) {
  v1::TableSlice slice;
  slice.set_table("series");
  slice.set_rows(static_cast<int64_t>(ys.size()));
  for (const char* name : {"model", "dtype", "numerics_class", "name"}) {
    v1::Column* column = AddColumn(slice, name, v1::Column::TEXT, true);
    for (size_t i = 0; i < ys.size(); ++i) column->add_texts(absl::StrCat("a ", name));
  }
  v1::Column* x = AddColumn(slice, "x", v1::Column::REAL, true);
  v1::Column* y = AddColumn(slice, "y", v1::Column::REAL);
  for (size_t i = 0; i < ys.size(); ++i) {
    x->add_reals(static_cast<double>(i));
    y->add_reals(ys[i]);
  }
  return slice;
}

class ResultsTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    experiment_ = Submit("r1");
  }
  absl::StatusOr<std::string> Insert(int64_t experiment, const std::vector<ResultTable>& tables,
                                     const std::vector<ResultArtifact>& artifacts = {}) {
    std::string digest;
    const absl::Status status = WriteStatus([&](Connection& db) {
      auto inserted = InsertResults(db, store_->artifacts(), experiment, tables, artifacts, false);
      if (inserted.ok()) digest = *inserted;
      return inserted.status();
    });
    if (!status.ok()) return status;
    return digest;
  }
  std::vector<std::string> Slices(int64_t experiment, const std::string& table) {
    std::vector<std::string> slices;
    const absl::Status status = store_->Read([&](Connection& db) {
      return ReadTable(db, store_->artifacts(), experiment, table, [&](const v1::TableSlice& slice) {
        slices.push_back(slice.SerializeAsString());
        return absl::OkStatus();
      });
    });
    EXPECT_TRUE(status.ok()) << status;
    return slices;
  }
  int64_t experiment_ = 0;
};

// What must come back; -0 comes back as 0.
uint64_t BitsOf(double value) {
  return std::bit_cast<uint64_t>(value == 0 ? 0.0 : value);
}

const std::vector<double> kAwkward = {0.0,
                                      -0.0,
                                      1.0,
                                      -3.0,
                                      0.1,
                                      1.0 / 3.0,
                                      std::numeric_limits<double>::denorm_min(),
                                      std::numeric_limits<double>::max(),
                                      std::numeric_limits<double>::infinity(),
                                      -std::numeric_limits<double>::infinity(),
                                      9007199254740993.0,
                                      1e15,
                                      -1e300,
                                      std::nan("")};

TEST_F(ResultsTest, DoublesComeBackBitForBitAndNaNAsNull) {
  ASSERT_TRUE(Insert(experiment_, {{Series(kAwkward), {}, true}}).ok());
  v1::TableSlice slice;
  ASSERT_TRUE(slice.ParseFromString(Slices(experiment_, "series").at(0)));
  const v1::Column& y = slice.columns(5);
  ASSERT_EQ(y.reals_size(), static_cast<int>(kAwkward.size()));
  for (int i = 0; i + 1 < y.reals_size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint64_t>(y.reals(i)), BitsOf(kAwkward[i])) << kAwkward[i];
    EXPECT_FALSE(y.null(i));
  }
  EXPECT_TRUE(y.null(y.reals_size() - 1));
  EXPECT_EQ(slice.columns(4).null_size(), 0);
  EXPECT_TRUE(slice.columns(4).key());
}

TEST_F(ResultsTest, ATableReadsTheSameFromSqlAndFromItsFile) {
  const int64_t other = Submit("r2");
  std::vector<double> ys = kAwkward;
  for (int i = 0; i < 40000; ++i) ys.push_back(std::sqrt(i));  // several slices
  const auto from_sql = Insert(experiment_, {{Series(ys), {}, true}});
  const auto from_file = Insert(other, {{Series(ys), {1, 5, 30000}, false}});
  ASSERT_TRUE(from_sql.ok() && from_file.ok());
  EXPECT_EQ(*from_sql, *from_file);
  const std::vector<std::string> slices = Slices(experiment_, "series");
  EXPECT_GT(slices.size(), 2u);
  EXPECT_TRUE(slices == Slices(other, "series"));
  const auto tables = Read([&](Connection& db) { return ListTables(db, other); });
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows(), static_cast<int64_t>(ys.size()));
  EXPECT_FALSE(tables[0].whole_in_sql());
}

TEST_F(ResultsTest, EveryRowOfAViewIsARowOfTheTable) {
  std::vector<double> ys = kAwkward;
  const std::vector<int64_t> chosen = {1, 4, 8, 13};
  ASSERT_TRUE(Insert(experiment_, {{Series(ys), chosen, false}}).ok());
  size_t at = 0;
  const absl::Status status = store_->Read([&](Connection& db) {
    return db.Query("SELECT * FROM series ORDER BY x", {}, [&](const Row& row) {
      const double expected = ys[chosen.at(at)];
      EXPECT_EQ(row.Text(0), absl::StrCat("e", experiment_));
      EXPECT_EQ(row.Text(1), "a model");
      EXPECT_EQ(row.Text(4), "a name");
      EXPECT_EQ(row.Real(5), static_cast<double>(chosen[at]));
      if (std::isnan(expected)) {
        EXPECT_TRUE(row.IsNull(6));
      } else {
        EXPECT_EQ(std::bit_cast<uint64_t>(row.Real(6)), BitsOf(expected));
      }
      ++at;
      return absl::OkStatus();
    });
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(at, chosen.size());
}

TEST_F(ResultsTest, EveryViewStartsAsTheInterfacePromises) {
  const auto columns = [&](const std::string& view) {
    return Read([&](Connection& db) -> absl::StatusOr<std::string> {
      std::string names;
      absl::Status status =
          db.Query("SELECT name FROM pragma_table_info(?) ORDER BY cid", {view}, [&](const Row& row) {
            names += (names.empty() ? "" : " ") + row.Text(0);
            return absl::OkStatus();
          });
      if (!status.ok()) return status;
      return names;
    });
  };
  const std::string start = "experiment model dtype numerics_class ";
  EXPECT_EQ(columns("slash_scores"),
            start + "seed rows layer head offset score stderr uniform reachable prompts dominant");
  EXPECT_EQ(columns("slash_heads"),
            start + "seed layer head best_offset score stderr dominant_offsets dominant");
  EXPECT_EQ(
      columns("frequencies"),
      start + "seed layer head pair theta amplitude phase mean_inp mean_abs_inp inp_at_lag std_inp active");
  EXPECT_EQ(columns("ood_ratios"), start + "seed layer head offset score_id score_ood ratio outlier");
  EXPECT_EQ(columns("spectra"), start + "seed matrix layer head r1 rank prompts dominant");
  EXPECT_EQ(columns("alignment"), start +
                                      "seed matrix layer head r1 rank rv rv_random_median rv_random_q1 "
                                      "rv_random_q3 bias_ratio mean_norm bias_norm dominant");
  EXPECT_EQ(columns("norms"), start + "seed side layer head rv dominant");
  EXPECT_EQ(columns("fits"), start + "seed layer head offset r2 r2_centred eta2 prompts");
  EXPECT_EQ(columns("removal_ratios"),
            start + "seed layer head offset band removed score score_removed ratio");
  EXPECT_EQ(columns("conditions"),
            start +
                "seed condition detector control draw target stage positions heads dims dose coverage rank "
                "layer head context_length depth accuracy samples perplexity saved_parameters");
  EXPECT_EQ(columns("series"), start + "name x y");
  EXPECT_EQ(columns("statistics"),
            start + "name checkpoint detector threshold seed value low high p n undefined_because");
}

TEST_F(ResultsTest, AViewFindsOneExperimentByItsIndex) {
  for (const char* view : {"slash_scores", "slash_heads", "frequencies", "series", "statistics", "ood_ratios",
                           "spectra", "alignment", "norms", "fits", "removal_ratios", "conditions"}) {
    std::string plan;
    ASSERT_TRUE(store_
                    ->Read([&](Connection& db) {
                      return db.Query(
                          absl::StrCat("EXPLAIN QUERY PLAN SELECT * FROM ", view, " WHERE experiment = 'e1'"),
                          {}, [&](const Row& row) {
                            plan += row.Text(3);
                            return absl::OkStatus();
                          });
                    })
                    .ok());
    EXPECT_THAT(plan, HasSubstr(absl::StrCat(view, "_by_experiment"))) << plan;
  }
}

TEST_F(ResultsTest, AnotherRunOfTheSameHasTheSameDigestAndAnyOtherBitAnother) {
  const std::vector<ResultArtifact> file = {{"scores.safetensors", kAlphaSha, 5}};
  const auto first = Insert(experiment_, {{Series({1, 2}), {}, true}}, file);
  const auto again = Insert(Submit("r2"), {{Series({1, 2}), {}, true}}, file);
  const auto other = Insert(Submit("r3"), {{Series({1, std::nextafter(2, 3)}), {}, true}}, file);
  const auto without = Insert(Submit("r4"), {{Series({1, 2}), {}, true}});
  ASSERT_TRUE(first.ok() && again.ok() && other.ok() && without.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
  EXPECT_NE(*first, *without);
  EXPECT_EQ(Read([&](Connection& db) { return GetExperiment(db, experiment_); }).result_digest, *first);
}

TEST_F(ResultsTest, InsertingAgainReplaces) {
  ASSERT_TRUE(Insert(experiment_, {{Series({1, 2, 3}), {}, true}}, {{"a", kAlphaSha, 5}}).ok());
  ASSERT_TRUE(Insert(experiment_, {{Series({4}), {}, true}}, {{"b", kBetaSha, 4}}).ok());
  EXPECT_EQ(Number("SELECT COUNT(*) FROM series"), 1);
  const auto artifacts = Read([&](Connection& db) { return ListArtifacts(db, experiment_); });
  ASSERT_EQ(artifacts.size(), 1u);
  EXPECT_EQ(artifacts[0].name, "b");
}

TEST_F(ResultsTest, AnEmptyTableStillHasItsColumns) {
  ASSERT_TRUE(Insert(experiment_, {{Series({}), {}, true}}).ok());
  v1::TableSlice slice;
  const std::vector<std::string> slices = Slices(experiment_, "series");
  ASSERT_EQ(slices.size(), 1u);
  ASSERT_TRUE(slice.ParseFromString(slices[0]));
  EXPECT_EQ(slice.rows(), 0);
  EXPECT_EQ(slice.columns_size(), 6);
}

TEST_F(ResultsTest, RefusesTablesWithoutAViewAndOtherColumns) {
  v1::TableSlice unknown = Series({1});
  unknown.set_table("nonsense");
  const auto no_view = Insert(experiment_, {{unknown, {}, true}});
  EXPECT_EQ(no_view.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(no_view.status().message()), HasSubstr("nonsense"));

  v1::TableSlice renamed = Series({1});
  renamed.mutable_columns(5)->set_name("z");
  EXPECT_THAT(std::string(Insert(experiment_, {{renamed, {}, true}}).status().message()), HasSubstr("z"));

  v1::TableSlice missing = Series({1});
  missing.mutable_columns()->RemoveLast();
  EXPECT_THAT(std::string(Insert(experiment_, {{missing, {}, true}}).status().message()), HasSubstr("y"));

  v1::TableSlice short_column = Series({1});
  short_column.set_rows(2);
  EXPECT_EQ(Insert(experiment_, {{short_column, {}, true}}).status().code(), absl::StatusCode::kInternal);
}

TEST_F(ResultsTest, AnUnknownTableIsNotFoundAndNamesThoseThatExist) {
  ASSERT_TRUE(Insert(experiment_, {{Series({1}), {}, true}}).ok());
  const absl::Status status = store_->Read([&](Connection& db) {
    return ReadTable(db, store_->artifacts(), experiment_, "fits",
                     [](const v1::TableSlice&) { return absl::OkStatus(); });
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("series"));
}

TEST_F(ResultsTest, AHundredThousandRowsTakeLessThanASecond) {
  std::vector<double> ys(100000);
  for (size_t i = 0; i < ys.size(); ++i) ys[i] = 1.0 / static_cast<double>(i + 1);
  const v1::TableSlice slice = Series(ys);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(Insert(experiment_, {{slice, {}, true}}).ok());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("seconds", std::to_string(seconds));
  if (!kSanitized) {
    EXPECT_LT(seconds, 1.0);
  }
  EXPECT_EQ(Number("SELECT COUNT(*) FROM series"), 100000);
}

}  // namespace
}  // namespace ropelab::store
