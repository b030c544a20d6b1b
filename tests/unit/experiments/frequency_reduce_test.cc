// Every expected value is worked by hand from the made-up readings.
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "frequency_fakes.h"
#include "nlohmann/json.hpp"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;

TEST(FrequencyReduce, PairsAreMeansOverThePrompts) {
  const auto results = RunAll(Frequency("rows: [40, 60]"));
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& table = TableNamed(*results, "frequencies");
  ASSERT_EQ(table.slice.rows(), 16);
  const int first = 0, third = 8 + 2;  // L0H2 pair 1, L1H3 pair 3
  EXPECT_EQ(ColumnNamed(table, "seed").integers(third), 42);
  EXPECT_EQ(ColumnNamed(table, "layer").integers(third), 1);
  EXPECT_EQ(ColumnNamed(table, "head").integers(third), 3);
  EXPECT_EQ(ColumnNamed(table, "pair").integers(third), 3);
  EXPECT_EQ(RealAt(table, "theta", third), 0.25);
  EXPECT_NEAR(RealAt(table, "amplitude", third), 5 * 2 * 4, 1e-12) << "the factor 2 stands on both sides";
  EXPECT_NEAR(RealAt(table, "phase", third), std::atan2(4, 3) - std::acos(0.0), 1e-15);
  EXPECT_EQ(RealAt(table, "mean_inp", first), 4.5) << "samples 0 to 9";
  EXPECT_EQ(RealAt(table, "mean_inp", third), -1);
  EXPECT_EQ(RealAt(table, "mean_abs_inp", third), 3);
  EXPECT_EQ(RealAt(table, "inp_at_lag", third), 0.25);
  EXPECT_EQ(RealAt(table, "std_inp", third), 0.5 + 2 + 39) << "of row 40, the first one";
}

// At the lag 1, 1/2, 1/4, 1/8 are above a tenth of the largest; of the absolute means 1 to 8 all above 0.8;
// of the plain means only 4.5 is.
TEST(FrequencyReduce, ActivePairsLieAboveATenthOfTheLargestAverage) {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> averages = {
      {"", {1, 1, 1, 1, 0, 0, 0, 0}},
      {"active_average: ABS", {1, 1, 1, 1, 1, 1, 1, 1}},
      {"active_average: ALL_PAIRS", {1, 0, 0, 0, 0, 0, 0, 0}}};
  for (const auto& [fields, wanted] : averages) {
    const auto results = RunAll(Frequency(fields));
    ASSERT_TRUE(results.ok()) << results.status();
    const auto& active = ColumnNamed(TableNamed(*results, "frequencies"), "active").integers();
    EXPECT_EQ(std::vector<int64_t>(active.begin(), active.begin() + 8), wanted) << fields;
  }
}

TEST(FrequencyReduce, NoPairIsActiveWhereTheLargestAverageIsNotAboveZero) {
  const auto results = RunAll(Frequency(), [](int64_t stage, int64_t, std::vector<v1::Reading>& readings) {
    for (v1::Reading& reading : readings) {
      if (stage == 1 && reading.has_head_frequencies()) {
        for (double& value : *reading.mutable_head_frequencies()->mutable_inp_at_lag()) {
          value = -value;
        }
      }
    }
  });
  ASSERT_TRUE(results.ok()) << results.status();
  for (const int64_t active : ColumnNamed(TableNamed(*results, "frequencies"), "active").integers()) {
    EXPECT_EQ(active, 0);
  }
  EXPECT_EQ(TableNamed(*results, "series").slice.rows(), 0);
  EXPECT_EQ(StatisticNamed(*results, "active_pairs.L0H2").value, 0);
  const Statistic ratio = StatisticNamed(*results, "epsilon_over_c1.L0H2");
  EXPECT_FALSE(ratio.value.has_value());
  EXPECT_EQ(ratio.because, "no pair is active: its largest average is not above 0");
  EXPECT_FALSE(StatisticNamed(*results, "l_min.union").value.has_value());
}

TEST(FrequencyReduce, FitsAreMeansOverThePromptsAndUndefinedOnceOneIs) {
  const auto results = RunAll(Frequency());
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& fits = TableNamed(*results, "fits");
  ASSERT_EQ(fits.slice.rows(), 2);
  EXPECT_EQ(RealAt(fits, "r2", 0), 4.5);
  EXPECT_EQ(RealAt(fits, "r2", 1), 5.5);
  EXPECT_EQ(RealAt(fits, "r2_centred", 1), 0.5);
  EXPECT_EQ(RealAt(fits, "eta2", 0), 0.25);
  EXPECT_TRUE(NullAt(ColumnNamed(fits, "eta2"), 1));
  EXPECT_THAT(ColumnNamed(fits, "offset").integers(), ElementsAre(2, 7));
  EXPECT_THAT(ColumnNamed(fits, "prompts").integers(), ElementsAre(10, 10));
}

// Lists: as it is, high 1 2, medium 3 4 5, low 6 7 8, and 1 4 of the person's.
TEST(FrequencyReduce, RatiosAreOfTheMeanScoresWithABoxPerBand) {
  const auto results = RunAll(Frequency("removals { bands: true pairs: [4, 1] }"));
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& ratios = TableNamed(*results, "removal_ratios");
  ASSERT_EQ(ratios.slice.rows(), 8);
  EXPECT_THAT(ColumnNamed(ratios, "band").texts(),
              ElementsAre("high", "list", "low", "medium", "high", "list", "low", "medium"));
  EXPECT_THAT(ColumnNamed(ratios, "removed").texts(),
              ElementsAre("1 2", "1 4", "6 7 8", "3 4 5", "1 2", "1 4", "6 7 8", "3 4 5"));
  EXPECT_EQ(ColumnNamed(ratios, "offset").integers(7), 7);
  EXPECT_EQ(RealAt(ratios, "score", 0), 0.5);
  EXPECT_EQ(RealAt(ratios, "score_removed", 0), 0.25);
  EXPECT_EQ(RealAt(ratios, "ratio", 0), 0.5);
  EXPECT_NEAR(RealAt(ratios, "ratio", 7), 2.0 / 3, 1e-15) << "medium is list 3";
  const Statistic median = StatisticNamed(*results, "removal_ratio_high_median");
  EXPECT_NEAR(*median.value, (0.5 + 1) / 2, 1e-15);
  EXPECT_EQ(median.n, 2);
  EXPECT_NEAR(*StatisticNamed(*results, "removal_ratio_low_minimum").value, 0.25, 1e-15);
  EXPECT_NEAR(*StatisticNamed(*results, "removal_ratio_low_maximum").value, 0.5, 1e-15);
  EXPECT_EQ(StatisticNamed(*results, "removal_ratio_low_outliers").value, 0);
  EXPECT_EQ(StatisticNamed(*results, "removed_pairs_medium").value, 3);
  EXPECT_EQ(StatisticNamed(*results, "removed_pairs_medium").n, 3);
}

TEST(FrequencyReduce, WithoutRemovalsThereIsNoTableOfThem) {
  const auto results = RunAll(Frequency());
  ASSERT_TRUE(results.ok()) << results.status();
  for (const Table& table : results->tables) {
    EXPECT_NE(table.slice.table(), "removal_ratios");
  }
}

// Two pairs: the high band is empty.
TEST(FrequencyReduce, AnEmptyBandIsReported) {
  ModelFacts narrow = ToyModel();
  narrow.config.set_head_dim(4);
  const ResolvedExperiment experiment =
      Resolved(Frequency("removals { bands: true }"), FakeCatalogue({narrow}));
  const Context context = ContextOf({narrow});
  FakeReadings none;
  const StagePlan plan = PlanOf(experiment, context, 1, none);
  EXPECT_EQ(plan.at(2).measurement.slash_profile().removals_size(), 3);
  // A made-up profile has eight pairs, of which this model has two.
  const auto results = RunAll(
      Frequency("removals { bands: true }"),
      [](int64_t, int64_t, std::vector<v1::Reading>& readings) {
        std::erase_if(readings, [](const v1::Reading& reading) {
          return reading.has_heat_map_piece() && reading.heat_map_piece().first_pair() > 1;
        });
        for (v1::Reading& reading : readings) {
          if (reading.has_head_frequencies()) {
            v1::HeadFrequencies& said = *reading.mutable_head_frequencies();
            for (auto* numbers : {said.mutable_theta(), said.mutable_mean_inp(), said.mutable_mean_abs_inp(),
                                  said.mutable_inp_at_lag()}) {
              numbers->Truncate(2);
            }
            said.mutable_means()->mutable_query()->Truncate(4);
            said.mutable_means()->mutable_key()->Truncate(4);
          } else if (reading.has_heat_map_piece()) {
            v1::HeatMapPiece& piece = *reading.mutable_heat_map_piece();
            piece.set_pairs(2);
            piece.mutable_inp()->Truncate(static_cast<int>(2 * (piece.row() + 1)));
            piece.mutable_std()->Truncate(2);
          }
        }
      },
      narrow);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(StatisticNamed(*results, "removed_pairs_high").value, 0);
  EXPECT_EQ(StatisticNamed(*results, "removal_ratio_high_median").because,
            "the band is empty: a head has 2 pairs");
  EXPECT_TRUE(StatisticNamed(*results, "removal_ratio_low_median").value.has_value());
}

TEST(FrequencyReduce, AnOffsetBeyondTheWindowHasNoScore) {
  ModelFacts sliding = ToyModel();
  sliding.config.add_sliding_window(0);
  sliding.config.add_sliding_window(7);  // keys 0 to 6 back
  const auto results = RunAll(Frequency("removals { pairs: [1] }"), nullptr, sliding);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& ratios = TableNamed(*results, "removal_ratios");
  EXPECT_EQ(RealAt(ratios, "ratio", 0), 0.5);
  for (const char* column : {"score", "score_removed", "ratio"}) {
    EXPECT_TRUE(NullAt(ColumnNamed(ratios, column), 1)) << column;
  }
}

// Thetas 1, 1/2, 1/4, 1/8 are active, over lags 0 to 64.
TEST(FrequencyReduce, CosineSumsAndTheAssumption) {
  double least = 4, most = -4;
  for (int lag = 1; lag <= 64; ++lag) {
    const double sum = std::cos(lag) + std::cos(lag / 2.0) + std::cos(lag / 4.0) + std::cos(lag / 8.0);
    least = std::min(least, sum);
    most = std::max(most, sum);
  }
  const double epsilon = (most - least) / 2, c2 = (most + least) / 2, c1 = 4 - c2, l_min = epsilon * 64 / c1;
  for (const double length : {l_min * 0.99, l_min * 1.01}) {
    const auto results = RunAll(Frequency(absl::StrCat("assumption_length: ", length)));
    ASSERT_TRUE(results.ok()) << results.status();
    const Table& series = TableNamed(*results, "series");
    ASSERT_EQ(series.slice.rows(), 3 * 65);
    EXPECT_EQ(ColumnNamed(series, "name").texts(0), "cosine_sum.L0H2");
    EXPECT_EQ(ColumnNamed(series, "name").texts(194), "cosine_sum.union");
    EXPECT_EQ(RealAt(series, "x", 64), 64);
    EXPECT_EQ(RealAt(series, "y", 0), 4);
    EXPECT_NEAR(RealAt(series, "y", 3), std::cos(3.0) + std::cos(1.5) + std::cos(0.75) + std::cos(0.375),
                1e-14);
    for (const char* of : {".L0H2", ".L1H3", ".union"}) {
      const auto value = [&](const std::string& name) { return *StatisticNamed(*results, name + of).value; };
      EXPECT_EQ(value("active_pairs"), 4);
      EXPECT_NEAR(value("c1"), c1, 1e-13);
      EXPECT_NEAR(value("c2"), c2, 1e-13);
      EXPECT_NEAR(value("epsilon"), epsilon, 1e-13);
      EXPECT_NEAR(value("epsilon_over_c1"), epsilon / c1, 1e-13);
      EXPECT_NEAR(value("l_min"), l_min, 1e-11);
      EXPECT_EQ(value("assumption_5_1"), length > l_min ? 1 : 0);
    }
    EXPECT_NEAR(*StatisticNamed(*results, "assumption_5_1.union").threshold, length, 1e-3) << "as printed";
  }
  const auto results = RunAll(Frequency());
  for (const std::string& name : ColumnNamed(TableNamed(*results, "statistics"), "name").texts()) {
    EXPECT_EQ(name.find("assumption"), std::string::npos) << "no verdict without an L";
  }
}

TEST(FrequencyReduce, HeatMapsAreMeansNamedByHeadAndRow) {
  const auto results = RunAll(Frequency("rows: [3, 40]"));
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->made.size(), 1u);
  EXPECT_EQ(results->made[0].name, "heat_maps.safetensors");
  const std::string& bytes = results->made[0].bytes;
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(header.size(), 4u);
  const auto& tensor = header.at("L1H3.row3");
  EXPECT_EQ(tensor.at("dtype"), "F64");
  EXPECT_EQ(tensor.at("shape"), (std::vector<int64_t>{8, 3}));
  const uint64_t begin = tensor.at("data_offsets").at(0);
  ASSERT_EQ(bytes.size(), 8 + length + 2 * 8 * (3 + 40) * 8);
  for (int pair = 0; pair < 8; ++pair) {
    for (int key = 0; key < 3; ++key) {
      double value = 0;
      const size_t place = static_cast<size_t>(pair * 3 + key);
      std::memcpy(&value, bytes.data() + 8 + length + begin + 8 * place, 8);
      EXPECT_EQ(value, 4.5 + 100 * pair + key);
    }
  }
}

TEST(FrequencyReduce, SeedsHaveFilesAndSeriesOfTheirOwn) {
  const auto results = RunAll(Frequency("rows: 5", "seeds: [42, 3]"));
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->made.size(), 2u);
  EXPECT_EQ(results->made[0].name, "heat_maps.toy.3.safetensors");
  EXPECT_EQ(results->made[1].name, "heat_maps.toy.42.safetensors");
  const Table& series = TableNamed(*results, "series");
  EXPECT_EQ(series.slice.rows(), 2 * 3 * 65);
  EXPECT_EQ(ColumnNamed(series, "name").texts(0), "cosine_sum.L0H2.seed3");
  EXPECT_EQ(ColumnNamed(TableNamed(*results, "frequencies"), "seed").integers(0), 3);
}

TEST(FrequencyReduce, NoHeadFoundIsSaidSo) {
  Context context = ContextOf({ToyModel()});
  const v1::Submission study = StudyOf(
      "name: 's' model: 'toy' experiments { name: 'detect' slash_detection { prompts { uniform_tokens { "
      "count: 9 "
      "tokens: 128 } } } } experiments { name: 'why' frequency_analysis { heads { slash_dominant { "
      "experiment: "
      "'detect' } } prompts { sampled { count: 9 tokens: 64 } } removals { bands: true } assumption_length: "
      "2 } }");
  Problems problems;
  const ResolvedExperiment experiment = ResolveSubmission(study, FakeCatalogue(), problems).experiments.at(1);
  v1::TableSlice none;
  none.set_table("slash_heads");
  for (const char* name : {"model", "seed", "layer", "head", "best_offset", "score", "dominant"}) {
    none.add_columns()->set_name(name);
  }
  context.earlier.push_back({"detect", "digest", {none}});
  FakeReadings readings;
  const auto results =
      FindKind("frequency_analysis")->experiment->Reduce(experiment.resolved, context, readings);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(StatisticNamed(*results, "analysed_heads").value, 0);
  EXPECT_EQ(StatisticNamed(*results, "analysed_heads").n, 8);
  for (const char* name : {"removal_ratio_high_median", "c1.union", "assumption_5_1.union"}) {
    EXPECT_EQ(StatisticNamed(*results, name).because, "the set of heads is empty") << name;
  }
  EXPECT_TRUE(results->made.empty());
  EXPECT_EQ(TableNamed(*results, "frequencies").slice.rows(), 0);
}

}  // namespace
}  // namespace ropelab::experiments
