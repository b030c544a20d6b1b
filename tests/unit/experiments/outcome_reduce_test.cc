// What the tables of knockouts, patches and sweeps hold, against values worked by hand.
#include <set>
#include <string>

#include "outcome_fakes.h"

namespace ropelab::experiments {
namespace {

using testing::HasSubstr;

// A row of a table by what its columns say; null is "-".
std::string TextAt(const Table& table, const std::string& column, int row) {
  const v1::Column& values = ColumnNamed(table, column);
  if (NullAt(values, row)) {
    return "-";
  }
  return values.type() == v1::Column::TEXT   ? values.texts(row)
         : values.type() == v1::Column::REAL ? testing::PrintToString(values.reals(row))
                                             : std::to_string(values.integers(row));
}
using Where = std::vector<std::pair<std::string, std::string>>;
int RowWhere(const Table& table, const Where& where) {
  std::vector<int> rows;
  for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
    bool fits = true;
    for (const auto& [column, value] : where) {
      fits = fits && TextAt(table, column, row) == value;
    }
    if (fits) {
      rows.push_back(row);
    }
  }
  EXPECT_EQ(rows.size(), 1u) << testing::PrintToString(where);
  return rows.empty() ? 0 : rows[0];
}
double RealAt(const Table& table, const Where& where, const std::string& column) {
  const int row = RowWhere(table, where);
  EXPECT_FALSE(NullAt(ColumnNamed(table, column), row)) << column;
  return ColumnNamed(table, column).reals(row);
}
int64_t IntegerAt(const Table& table, const Where& where, const std::string& column) {
  return ColumnNamed(table, column).integers(RowWhere(table, where));
}
Where Statistic(const std::string& name, const std::string& seed = "42") {
  return {{"name", name}, {"seed", seed}};
}

bool Zeroes(const v1::Condition& condition, int dim) {
  for (const v1::Intervention& edit : condition.interventions()) {
    for (const int other : edit.zero_dims().dims()) {
      if (other == dim) {
        return true;
      }
    }
  }
  return false;
}
bool Holds(const v1::Condition& condition, const std::string& head) {
  return HeadsIn(condition).find(head) != std::string::npos;
}

constexpr char kTwoHundred[] =
    "context_lengths: 128 depths: 0.5 samples_per_cell: 200 haystack { generated {} }";

// As the paper's Table 4: 23 of 200 are lost with the lowest frequencies of the named heads, none else.
bool OfTable4(const v1::Condition& condition, int64_t sample) {
  return !(Zeroes(condition, 7) && Zeroes(condition, 15) && Holds(condition, "L0H2")) || sample >= 23;
}

constexpr char kPatch[] =
    "conditions: [LOWEST_FREQUENCY, HIGHEST_FREQUENCY, HIGHEST_UTILITY, LAYER_MATCHED_CONTROL] controls { "
    "layer_matched { draws: 2 } } perplexity { prompts { generated { count: 9 tokens: 64 } } }";
const FakeLoss kNinthRises = [](const v1::Condition& condition, int64_t) {
  return Zeroes(condition, 7) ? std::log(2.02) : std::log(2.0);  // one per cent
};

TEST(OutcomeReduce, Table4OfThePaper) {
  const auto results =
      RunOutcomes(OutcomeSpec("patch", kPatch, kTwoHeads, kTwoHundred), OfTable4, kNinthRises);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& conditions = TableNamed(*results, "conditions");
  // Baseline, three conditions and two draws, each on all samples, of the length and of its depth.
  ASSERT_EQ(conditions.slice.rows(), 6 * 3);
  const Where all = {{"context_length", "-"}, {"depth", "-"}};
  const auto of = [&](const std::string& condition, Where more = {}) {
    Where where = all;
    where.insert(where.end(), {{"condition", condition}});
    where.insert(where.end(), more.begin(), more.end());
    return where;
  };
  EXPECT_EQ(RealAt(conditions, of("baseline"), "accuracy"), 1);
  EXPECT_EQ(RealAt(conditions, of("lowest_frequency"), "accuracy"), 0.885);
  EXPECT_EQ(RealAt(conditions, of("highest_frequency"), "accuracy"), 1);
  EXPECT_EQ(RealAt(conditions, of("layer_matched_control", {{"draw", "1"}}), "accuracy"), 1);
  EXPECT_NEAR(RealAt(conditions, of("lowest_frequency"), "perplexity"), 2.02, 1e-12);
  EXPECT_EQ(IntegerAt(conditions, of("lowest_frequency"), "samples"), 200);
  EXPECT_EQ(IntegerAt(conditions, of("lowest_frequency"), "dims"), 2);
  const int row = RowWhere(conditions, of("lowest_frequency"));
  EXPECT_EQ(TextAt(conditions, "target", row), "query");
  EXPECT_EQ(TextAt(conditions, "stage", row), "pre_rope");
  EXPECT_EQ(TextAt(conditions, "positions", row), "all");
  EXPECT_EQ(TextAt(conditions, "dose", row), "0.125");
  EXPECT_EQ(TextAt(conditions, "detector", row), "-");
  EXPECT_EQ(TextAt(conditions, "control", RowWhere(conditions, of("layer_matched_control", {{"draw", "0"}}))),
            "layer_matched");
  const Where cell = {{"condition", "lowest_frequency"}, {"context_length", "128"}, {"depth", "0.5"}};
  EXPECT_EQ(RealAt(conditions, cell, "accuracy"), 0.885);
  EXPECT_EQ(TextAt(conditions, "perplexity", RowWhere(conditions, cell)), "-");

  const Table& statistics = TableNamed(*results, "statistics");
  EXPECT_NEAR(RealAt(statistics, Statistic("mcnemar_p"), "value"), 2.4e-7, 5e-9);  // 2 / 2^23
  EXPECT_EQ(RealAt(statistics, Statistic("mcnemar_p"), "value"), std::ldexp(1.0, -22));
  EXPECT_EQ(IntegerAt(statistics, Statistic("mcnemar_p"), "n"), 23);
  EXPECT_DOUBLE_EQ(RealAt(statistics, Statistic("frequency_effect"), "value"), -0.115);
  EXPECT_NEAR(RealAt(statistics, Statistic("frequency_effect"), "low"), -0.16, 0.006);
  EXPECT_NEAR(RealAt(statistics, Statistic("frequency_effect"), "high"), -0.075, 0.006);
  EXPECT_DOUBLE_EQ(RealAt(statistics, Statistic("head_specificity_gap"), "value"), 0.115);
  EXPECT_EQ(IntegerAt(statistics, Statistic("head_specificity_gap"), "n"), 2);
  EXPECT_NEAR(RealAt(statistics, Statistic("perplexity_rise"), "value"), 0.01, 1e-12);
  EXPECT_NEAR(RealAt(statistics, Statistic("recall_drop"), "value"), 0.115, 1e-12);
  EXPECT_NEAR(RealAt(statistics, Statistic("specificity_ratio"), "value"), 0.01 / 0.115, 1e-10);
  EXPECT_NEAR(RealAt(statistics, Statistic("specificity_verdict.specific"), "value"), 0.01 / 0.115, 1e-10);
  EXPECT_EQ(RealAt(statistics, Statistic("at_ceiling"), "value"), 0);
  EXPECT_EQ(RealAt(statistics, Statistic("needles_kept"), "value"), 200);
}

TEST(OutcomeReduce, EveryPairIsCompared) {
  const auto results =
      RunOutcomes(OutcomeSpec("patch", kPatch, kTwoHeads, kTwoHundred), OfTable4, kNinthRises);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& table = TableNamed(*results, "comparisons");
  // Five against the baseline, lowest against highest, two draws against lowest; on all and on the one
  // length.
  ASSERT_EQ(table.slice.rows(), 2 * 8);
  const Where low_high = {
      {"condition", "lowest_frequency"}, {"against", "highest_frequency"}, {"context_length", "-"}};
  EXPECT_DOUBLE_EQ(RealAt(table, low_high, "difference"), -0.115);
  EXPECT_EQ(IntegerAt(table, low_high, "only_condition"), 0);
  EXPECT_EQ(IntegerAt(table, low_high, "only_against"), 23);
  EXPECT_EQ(IntegerAt(table, low_high, "samples"), 200);
  const Where control = {{"condition", "layer_matched_control"},
                         {"against", "lowest_frequency"},
                         {"context_length", "128"},
                         {"draw", "1"}};
  EXPECT_DOUBLE_EQ(RealAt(table, control, "difference"), 0.115);
  EXPECT_EQ(TextAt(table, "control", RowWhere(table, control)), "layer_matched");
  const Where same = {{"condition", "highest_utility"}, {"against", "baseline"}, {"context_length", "-"}};
  EXPECT_EQ(RealAt(table, same, "p"), 1);
  EXPECT_EQ(RealAt(table, same, "low"), 0);
}

TEST(OutcomeReduce, OutcomesKeepEverySample) {
  const auto results =
      RunOutcomes(OutcomeSpec("patch", kPatch, kTwoHeads, kTwoHundred), OfTable4, kNinthRises);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& table = TableNamed(*results, "outcomes");
  ASSERT_EQ(table.slice.rows(), 6 * 200);
  const Where wrong = {{"condition", "lowest_frequency"}, {"sample", "22"}};
  EXPECT_EQ(IntegerAt(table, wrong, "correct"), 0);
  EXPECT_EQ(TextAt(table, "generated", RowWhere(table, wrong)), " nothing");
  EXPECT_EQ(IntegerAt(table, {{"condition", "lowest_frequency"}, {"sample", "23"}}, "correct"), 1);
  EXPECT_EQ(TextAt(table, "context_length", 5), "128");
  EXPECT_EQ(TextAt(table, "depth", 5), "0.5");
}

TEST(OutcomeReduce, AtCeilingIsSaid) {
  const auto results = RunOutcomes(
      OutcomeSpec("patch", kPatch, kTwoHeads, kTwoHundred),
      [](const v1::Condition&, int64_t sample) { return sample > 1; },
      [](const v1::Condition&, int64_t) { return 1.0; });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& statistics = TableNamed(*results, "statistics");
  EXPECT_EQ(RealAt(statistics, Statistic("at_ceiling"), "value"), 1);
  EXPECT_EQ(TextAt(statistics, "undefined_because", RowWhere(statistics, Statistic("at_ceiling"))),
            "at ceiling: uninformative");
  EXPECT_EQ(TextAt(statistics, "undefined_because", RowWhere(statistics, Statistic("specificity_ratio"))),
            "recall does not drop");
  EXPECT_EQ(IntegerAt(TableNamed(*results, "comparisons"),
                      {{"condition", "lowest_frequency"}, {"against", "baseline"}, {"context_length", "-"}},
                      "at_ceiling"),
            1);
}

// Two hundred samples, three of which are wrong: 0.985 is below the ceiling.
TEST(OutcomeReduce, BelowTheCeilingEqualConditionsSaySomething) {
  const auto results = RunOutcomes(
      OutcomeSpec("patch", kPatch, kTwoHeads, kTwoHundred),
      [](const v1::Condition&, int64_t sample) { return sample > 2; },
      [](const v1::Condition&, int64_t) { return 1.0; });
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(RealAt(TableNamed(*results, "statistics"), Statistic("at_ceiling"), "value"), 0);
}

struct Verdict {
  double rise, drop;
  const char* name;
};
TEST(OutcomeReduce, TheRatioHasAVerdict) {
  for (const Verdict& verdict : {Verdict{0.32, 1, "specific"}, Verdict{0.34, 1, "ambiguous"},
                                 Verdict{0.66, 1, "ambiguous"}, Verdict{0.68, 1, "general"}}) {
    const auto results = RunOutcomes(
        OutcomeSpec("knockout", "perplexity { prompts { generated { count: 2 tokens: 64 } } }"),
        [](const v1::Condition& condition, int64_t) { return HeadsIn(condition) != "L0H2 L1H1"; },
        [&](const v1::Condition& condition, int64_t) {
          return HeadsIn(condition) == "L0H2 L1H1" ? std::log(1 + verdict.rise) : 0.0;
        });
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_NEAR(RealAt(TableNamed(*results, "statistics"),
                       Statistic(std::string("specificity_verdict.") + verdict.name), "value"),
                verdict.rise, 1e-12);
  }
}

// L1H0 is the one whose loss hurts, beside the named heads. Of numpy's ten draws of two of the other six
// heads it is in draws 0 and 1; draw 0 holds L0H1 too, which draws 3 and 8 show to be innocent.
TEST(OutcomeReduce, TheHeadsOfTheWorstDrawAreNamed) {
  const auto results =
      RunOutcomes(OutcomeSpec("knockout"), [](const v1::Condition& condition, int64_t sample) {
        return HeadsIn(condition) != "L0H2 L1H1" && (!Holds(condition, "L1H0") || sample < 4);
      });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& statistics = TableNamed(*results, "statistics");
  EXPECT_EQ(RealAt(statistics, Statistic("mcnemar_p"), "value"), std::ldexp(1.0, -9));  // ten of ten
  EXPECT_EQ(RealAt(statistics, Statistic("accuracy_drop"), "value"), 1);
  const Where draws = Statistic("accuracy_over_draws.random_control");
  EXPECT_EQ(RealAt(statistics, draws, "value"), 1);
  EXPECT_EQ(RealAt(statistics, draws, "low"), 0.4);
  EXPECT_EQ(RealAt(statistics, draws, "high"), 1);
  EXPECT_EQ(IntegerAt(statistics, draws, "n"), 10);
  EXPECT_EQ(RealAt(statistics, Statistic("worst_draw.random"), "value"), 0);
  EXPECT_EQ(RealAt(statistics, Statistic("worst_draw.random.L1H0"), "value"), 0.4);
  EXPECT_EQ(IntegerAt(statistics, Statistic("worst_draw.random.L1H0"), "n"), 2);
  EXPECT_EQ(RealAt(statistics, Statistic("worst_draw.random.L0H1"), "value"), 1);
  EXPECT_EQ(RealAt(statistics, Statistic("worst_draw.random.L0H1"), "low"), 0.4);
  EXPECT_EQ(IntegerAt(statistics, Statistic("worst_draw.random.L0H1"), "n"), 3);
  EXPECT_EQ(RealAt(statistics, Statistic("head_specificity_gap"), "low"), 0.4);
  // L1H0 uses the key of L1H1, which is named.
  EXPECT_EQ(RealAt(statistics, Statistic("shares_kv_group.random.L1H0"), "value"), 2);
  EXPECT_EQ(IntegerAt(statistics, Statistic("shares_kv_group.random.L1H0"), "n"), 10);
}

// Heads 0, 1 and 2, 3 of a layer share their keys.
TEST(OutcomeReduce, AnEditOfKeysSaysHowManyHeadsItTouches) {
  const auto touched = [](const std::string& fields, const std::string& heads, const std::string& kind) {
    const auto results = RunOutcomes(OutcomeSpec(kind, "conditions: LOWEST_FREQUENCY " + fields, heads),
                                     [](const v1::Condition&, int64_t) { return true; });
    EXPECT_TRUE(results.ok()) << results.status();
    std::string rows;
    const Table& statistics = TableNamed(*results, "statistics");
    for (int row = 0; row < static_cast<int>(statistics.slice.rows()); ++row) {
      const std::string name = TextAt(statistics, "name", row);
      if (name.rfind("key_edit_heads", 0) == 0) {
        rows += name + "=" + TextAt(statistics, "value", row) + "/" + TextAt(statistics, "n", row) + " ";
      }
    }
    return rows;
  };
  constexpr char kGroup[] = "list { head { layer: 0 head: 2 } head { layer: 0 head: 3 } }";
  EXPECT_EQ(touched("target: KEY", kTwoHeads, "patch"), "key_edit_heads=4/2 ");
  EXPECT_EQ(touched("target: BOTH", kGroup, "patch"), "key_edit_heads=2/2 ");
  EXPECT_EQ(touched("target: QUERY", kTwoHeads, "patch"), "");
  EXPECT_EQ(touched("target: KEY", kGroup, "per_head_patch"),
            "key_edit_heads.L0H2=2/1 key_edit_heads.L0H3=2/1 ");
}

// Of a head that is patched alone only the other head of its group shares a key, whatever else the set holds.
TEST(OutcomeReduce, AHeadPatchedAloneSharesItsOwnKeyOnly) {
  const auto results = RunOutcomes(
      OutcomeSpec("per_head_patch", "conditions: HIGHEST_FREQUENCY controls { layer_matched { draws: 40 } }",
                  "list { head { layer: 0 head: 0 } head { layer: 0 head: 2 } }"),
      [](const v1::Condition&, int64_t) { return true; });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& statistics = TableNamed(*results, "statistics");
  std::set<std::string> shared;
  for (int row = 0; row < static_cast<int>(statistics.slice.rows()); ++row) {
    const std::string name = TextAt(statistics, "name", row);
    if (name.rfind("shares_kv_group", 0) == 0) {
      shared.insert(name);
    }
  }
  EXPECT_THAT(shared, testing::ElementsAre("shares_kv_group.layer_matched.L0H1.L0H0",
                                           "shares_kv_group.layer_matched.L0H3.L0H2"));
}

TEST(OutcomeReduce, ADoseHasItsOwnStatistics) {
  const auto results =
      RunOutcomes(OutcomeSpec("dose_sweep", "dims_shares: [0.125, 0.5]"),
                  [](const v1::Condition& condition, int64_t sample) {
                    const bool low = Zeroes(condition, 7) && Zeroes(condition, 15);
                    return !low || sample >= condition.interventions(0).zero_dims().dims_size();
                  });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& statistics = TableNamed(*results, "statistics");
  const auto at = [&](const std::string& name, const std::string& dose) {
    return RealAt(statistics, {{"name", name}, {"seed", "42"}, {"threshold", dose}}, "value");
  };
  EXPECT_DOUBLE_EQ(at("accuracy_drop", "0.125"), 0.2);
  EXPECT_DOUBLE_EQ(at("accuracy_drop", "0.5"), 0.8);
  EXPECT_EQ(at("mcnemar_p", "0.125"), 0.5);
  EXPECT_EQ(at("mcnemar_p", "0.5"), std::ldexp(1.0, -7));
  EXPECT_DOUBLE_EQ(at("accuracy_over_draws.random_dims", "0.125"), 1);
}

// One model, two seeds: means and mean - SD, mean + SD with ddof 1.
TEST(OutcomeReduce, SeedsAreNeverPooledButTheirEffectsHaveAMean) {
  std::string spec = OutcomeSpec("patch", "conditions: [LOWEST_FREQUENCY, HIGHEST_FREQUENCY]");
  spec.insert(0, "seeds: [42, 7] ");
  const auto results = RunOutcomes(spec, [](const v1::Condition& condition, int64_t sample) {
    return !Zeroes(condition, 7) || sample >= 2;
  });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& statistics = TableNamed(*results, "statistics");
  EXPECT_DOUBLE_EQ(RealAt(statistics, Statistic("frequency_effect", "7"), "value"), -0.2);
  const Where mean = Statistic("frequency_effect.over_seeds", "-");
  EXPECT_DOUBLE_EQ(RealAt(statistics, mean, "value"), -0.2);
  EXPECT_DOUBLE_EQ(RealAt(statistics, mean, "low"), -0.2);
  EXPECT_EQ(IntegerAt(statistics, mean, "n"), 2);
}

TEST(OutcomeReduce, ContextLengthsStandApart) {
  const auto results = RunOutcomes(
      OutcomeSpec(
          "context_sweep", "", kTwoHeads,
          "context_lengths: [128, 256] depths: [0.1, 0.9] samples_per_cell: 4 haystack { generated {} }"),
      // Sixteen samples, cell by cell: the longer context from 8 on, its second depth from 12 on.
      [](const v1::Condition& condition, int64_t sample) { return !Zeroes(condition, 7) || sample < 12; });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& statistics = TableNamed(*results, "statistics");
  EXPECT_DOUBLE_EQ(RealAt(statistics, Statistic("frequency_effect"), "value"), -0.25);
  EXPECT_DOUBLE_EQ(RealAt(statistics, Statistic("frequency_effect.context_128"), "value"), 0);
  EXPECT_DOUBLE_EQ(RealAt(statistics, Statistic("frequency_effect.context_256"), "value"), -0.5);
  EXPECT_EQ(RealAt(statistics, Statistic("at_ceiling.context_128"), "value"), 1);
  const Table& conditions = TableNamed(*results, "conditions");
  EXPECT_EQ(conditions.slice.rows(), 3 * 7);
  EXPECT_EQ(
      RealAt(conditions, {{"condition", "lowest_frequency"}, {"context_length", "256"}, {"depth", "0.9"}},
             "accuracy"),
      0);
  EXPECT_EQ(RealAt(conditions, {{"condition", "lowest_frequency"}, {"context_length", "256"}, {"depth", "-"}},
                   "accuracy"),
            0.5);
}

TEST(OutcomeReduce, ReadingsThatAreNotThePlansAreRefused) {
  const ResolvedExperiment experiment = Resolved(OutcomeSpec("knockout"), PatchCatalogue());
  const Context context = ContextOf({PatchModel()}, {Books()});
  FakeReadings none;
  const StagePlan plan = PlanOf(experiment, context, 1, none);
  const auto right = [](const v1::Condition&, int64_t) { return true; };
  for (const bool twice : {false, true}) {
    FakeReadings readings;
    for (size_t task = 0; task < plan.size(); ++task) {
      std::vector<v1::Reading> given =
          MeasureOutcomes(plan[task].measurement.condition_outcomes(), right, nullptr);
      if (task == 1) {
        twice ? given.push_back(given.back()) : given.pop_back();
      }
      readings.Add(1, plan[task].measurement, given);
    }
    const auto results = FindKind("knockout")->experiment->Reduce(experiment.resolved, context, readings);
    EXPECT_EQ(results.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(results.status().message(), HasSubstr(twice ? "given twice" : "no answer was given"));
  }
}

TEST(OutcomeReduce, LowRankHasAccuracyBesideThePerplexity) {
  const auto results = RunOutcomes(
      OutcomeSpec("low_rank", "ranks: 2 perplexity { prompts { uniform_tokens { count: 2 tokens: 64 } } }"),
      [](const v1::Condition& condition, int64_t sample) {
        return condition.interventions_size() == 0 || sample >= 3;
      },
      [](const v1::Condition&, int64_t) { return 1.0; });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& conditions = TableNamed(*results, "conditions");
  const Where named = {{"condition", "low_rank"}, {"control", "-"}, {"context_length", "-"}};
  EXPECT_EQ(RealAt(conditions, named, "accuracy"), 0.7);
  EXPECT_NEAR(RealAt(conditions, named, "perplexity"), std::exp(1.0), 1e-12);
  EXPECT_EQ(IntegerAt(conditions, named, "samples"), 10);
  EXPECT_EQ(TableNamed(*results, "outcomes").slice.rows(), 12 * 10);
  EXPECT_DOUBLE_EQ(RealAt(TableNamed(*results, "statistics"),
                          {{"name", "low_rank_accuracy_drop"}, {"detector", "named"}}, "value"),
                   0.3);
}

}  // namespace
}  // namespace ropelab::experiments
