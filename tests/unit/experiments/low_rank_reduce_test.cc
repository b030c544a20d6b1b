#include <cmath>
#include <functional>
#include <limits>

#include "fakes.h"
#include "server/experiments/low_rank.h"

namespace ropelab::experiments {
namespace {

using testing::HasSubstr;

// Ten prompts of 64 tokens in two blocks. The loss of a sample under condition c is 63 (2 + c / 8) + sample,
// so over the samples it is 630 (2 + c / 8) + 45.
double PerplexityOf(int condition) {
  return std::exp(2 + condition / 8.0 + 45.0 / 630);
}

using Change = std::function<void(int64_t task, std::vector<v1::Reading>& readings)>;

std::vector<v1::Reading> Measure(const v1::ConditionOutcomes& outcomes) {
  std::vector<v1::Reading> readings;
  const v1::SampleBlock& samples = outcomes.prompts().samples();
  for (int64_t i = 0; i < samples.count(); ++i) {
    for (int condition = 0; condition < outcomes.conditions_size(); ++condition) {
      v1::PromptLoss& loss = *readings.emplace_back().mutable_prompt_loss();
      loss.set_sample(samples.first_sample() + i);
      loss.set_condition(condition);
      loss.set_tokens(63);
      loss.set_nll(63 * (2 + condition / 8.0) + static_cast<double>(loss.sample()));
    }
  }
  return readings;
}

absl::StatusOr<Results> RunAll(const std::string& spec, const Change& change = nullptr) {
  const ResolvedExperiment experiment = Resolved(spec);
  const Context context = ContextOf({ToyModel()});
  FakeReadings readings;
  int64_t task = 0;
  for (const PlannedTask& planned : PlanOf(experiment, context, 1, readings)) {
    std::vector<v1::Reading> said = Measure(planned.measurement.condition_outcomes());
    if (change) {
      change(task, said);
    }
    readings.Add(1, planned.measurement, said);
    ++task;
  }
  return FindKind("low_rank")->experiment->Reduce(experiment.resolved, context, readings);
}

std::string LowRankOf(const std::string& fields = "ranks: [1, 4]",
                      const std::string& heads = "head { layer: 0 head: 2 } head { layer: 1 head: 3 }",
                      const std::string& prompts = "uniform_tokens { count: 10 tokens: 64 }") {
  return "name: 'x' model: 'toy' low_rank { heads { list { " + heads + " } } perplexity { prompts { " +
         prompts + " } } " + fields + " }";
}

// A column as text, null as "-".
std::vector<std::string> Column(const Table& table, const std::string& name) {
  const v1::Column& column = ColumnNamed(table, name);
  std::vector<std::string> values;
  for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
    if (NullAt(column, row)) {
      values.push_back("-");
    } else if (column.type() == v1::Column::TEXT) {
      values.push_back(column.texts(row));
    } else {
      values.push_back(std::to_string(column.integers(row)));
    }
  }
  return values;
}

// The draws' heads repeat (low_rank_plan_test.cc): by draw, the condition of rank 1.
constexpr int kConditionOfDraw[] = {2, 3, 4, 5, 4, 6, 4, 6, 7, 8};

TEST(LowRankReduce, OneRowPerConditionAndDraw) {
  const auto results = RunAll(LowRankOf());
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& table = TableNamed(*results, "conditions");
  ASSERT_EQ(table.slice.rows(), 1 + 2 * 11);
  EXPECT_TRUE(table.whole_in_sql);
  // Sorted: the model as it is, the named heads by rank, then draw by draw the control by rank.
  std::vector<std::string> conditions(23, "low_rank"), controls(23, "random"), draws(23, "-");
  std::vector<std::string> ranks(23, "-"), targets(23, "both"), heads(23, "2"), saved(23);
  std::vector<int> measured(23, 0);
  conditions[0] = "baseline";
  targets[0] = heads[0] = saved[0] = "-";
  controls[0] = controls[1] = controls[2] = "-";
  for (int row = 1; row < 23; ++row) {
    const size_t at = static_cast<size_t>(row);
    const bool second = row % 2 == 0;
    ranks[at] = second ? "4" : "1";
    if (row > 2) {
      draws[at] = std::to_string((row - 3) / 2);
    }
    measured[at] = (row > 2 ? kConditionOfDraw[(row - 3) / 2] : 1) + (second ? 8 : 0);
  }
  EXPECT_EQ(Column(table, "condition"), conditions);
  EXPECT_EQ(Column(table, "control"), controls);
  EXPECT_EQ(Column(table, "draw"), draws);
  EXPECT_EQ(Column(table, "rank"), ranks);
  EXPECT_EQ(Column(table, "target"), targets);
  EXPECT_EQ(Column(table, "heads"), heads);
  EXPECT_EQ(Column(table, "samples"), std::vector<std::string>(23, "10"));
  EXPECT_EQ(Column(table, "context_length"), std::vector<std::string>(23, "64"));
  for (const char* unused : {"detector", "stage", "positions", "dims", "layer", "head"}) {
    EXPECT_EQ(Column(table, unused), std::vector<std::string>(23, "-")) << unused;
  }
  for (const char* unused : {"dose", "coverage", "depth", "accuracy"}) {
    EXPECT_TRUE(NullAt(ColumnNamed(table, unused), 5)) << unused;
  }
  for (int row = 0; row < 23; ++row) {
    EXPECT_NEAR(ColumnNamed(table, "perplexity").reals(row), PerplexityOf(measured[static_cast<size_t>(row)]),
                1e-12)
        << row;
  }
  // Draws 2, 4 and 6 hold L1H1 and L1H2, of two KV heads; draw 3's are of two layers; no pair shares a key.
  const std::vector<std::string> all = Column(table, "saved_parameters");
  EXPECT_EQ(all[0], "-");
  for (size_t row = 1; row < 23; ++row) {
    EXPECT_EQ(all[row], std::to_string(4 * (1024 - (row % 2 == 0 ? 4 : 1) * 80))) << row;
  }
}

TEST(LowRankReduce, AKvHeadsKeyIsSavedOnce) {
  const auto results = RunAll(LowRankOf("ranks: 16 matrices: KEY",
                                        "head { layer: 0 head: 2 } head { layer: 0 "
                                        "head: 3 }"));
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& table = TableNamed(*results, "conditions");
  EXPECT_EQ(Column(table, "saved_parameters")[1], "-256");
  EXPECT_EQ(Column(table, "target")[1], "key");
}

TEST(LowRankReduce, PromptsOfDifferentLengthsHaveNoContextLength) {
  const auto results =
      RunAll(LowRankOf("ranks: 1", "head { layer: 0 head: 2 }",
                       "token_ids { prompts { ids: [1, 2] } prompts { ids: [1, 2, 3, 4] } }"),
             [](int64_t, std::vector<v1::Reading>& readings) {
               for (v1::Reading& reading : readings) {
                 v1::PromptLoss& loss = *reading.mutable_prompt_loss();
                 loss.set_tokens(loss.sample() == 0 ? 1 : 3);
                 loss.set_nll(loss.sample() == 0 ? 2 : 4);
               }
             });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& table = TableNamed(*results, "conditions");
  EXPECT_EQ(Column(table, "context_length")[0], "-");
  EXPECT_DOUBLE_EQ(ColumnNamed(table, "perplexity").reals(0), std::exp(6.0 / 4));
}

struct Statistic {
  std::optional<double> value, low, high;
  int64_t n = -1;
  std::string because;
};
Statistic StatisticOf(const Results& results, const std::string& name, const std::string& set, double rank) {
  const Table& table = TableNamed(results, "statistics");
  for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
    const bool no_rank = NullAt(ColumnNamed(table, "threshold"), row);
    if (ColumnNamed(table, "name").texts(row) != name || ColumnNamed(table, "detector").texts(row) != set ||
        (no_rank ? 0 : ColumnNamed(table, "threshold").reals(row)) != rank) {
      continue;
    }
    const auto real = [&](const char* column) {
      return NullAt(ColumnNamed(table, column), row)
                 ? std::nullopt
                 : std::optional<double>(ColumnNamed(table, column).reals(row));
    };
    return {real("value"), real("low"), real("high"), ColumnNamed(table, "n").integers(row),
            ColumnNamed(table, "undefined_because").texts(row)};
  }
  ADD_FAILURE() << "no statistic " << name << " " << set << " " << rank;
  return {};
}

TEST(LowRankReduce, RisesAreRelativeAndADrawKeepsItsOwn) {
  const auto results = RunAll(LowRankOf());
  ASSERT_TRUE(results.ok()) << results.status();
  const Statistic named = StatisticOf(*results, "low_rank_perplexity_rise", "named", 4);
  EXPECT_NEAR(*named.value, std::exp(9 / 8.0) - 1, 1e-12);
  EXPECT_FALSE(named.low.has_value());
  EXPECT_EQ(named.n, 10);
  const Statistic random = StatisticOf(*results, "low_rank_perplexity_rise", "random", 1);
  double sum = 0;
  for (const int condition : kConditionOfDraw) {
    sum += std::exp(condition / 8.0) - 1;
  }
  EXPECT_NEAR(*random.value, sum / 10, 1e-12);
  EXPECT_NEAR(*random.low, std::exp(2 / 8.0) - 1, 1e-12);
  EXPECT_NEAR(*random.high, std::exp(8 / 8.0) - 1, 1e-12);
  EXPECT_EQ(random.n, 10);
  EXPECT_EQ(*StatisticOf(*results, "low_rank_heads", "named", 0).value, 2);
  EXPECT_EQ(StatisticOf(*results, "low_rank_heads", "named", 0).n, 8);
  EXPECT_EQ(*StatisticOf(*results, "low_rank_heads", "random", 0).value, 2);
  EXPECT_EQ(StatisticOf(*results, "low_rank_heads", "random", 0).n, 6);
}

// L1H2 uses the key of L1H3, which is named; numpy draws it at 1, 2, 3, 4, 6 and 9.
TEST(LowRankReduce, ControlsThatShareAKeyAreNamed) {
  const auto results = RunAll(LowRankOf());
  ASSERT_TRUE(results.ok()) << results.status();
  const Statistic shared = StatisticOf(*results, "low_rank_shares_key.L1H2", "random", 0);
  EXPECT_EQ(*shared.value, 6);
  EXPECT_EQ(shared.n, 10);
  const auto queries = RunAll(LowRankOf("ranks: 1 matrices: QUERY"));
  ASSERT_TRUE(queries.ok()) << queries.status();
  for (const std::string& name : Column(TableNamed(*queries, "statistics"), "name")) {
    EXPECT_THAT(name, testing::Not(HasSubstr("shares_key")));
  }
}

TEST(LowRankReduce, WithoutAnotherHeadThereIsNoControl) {
  std::string heads;
  for (int head = 0; head < 8; ++head) {
    heads += "head { layer: " + std::to_string(head / 4) + " head: " + std::to_string(head % 4) + " } ";
  }
  const auto results = RunAll(LowRankOf("ranks: 2", heads));
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(TableNamed(*results, "conditions").slice.rows(), 2);
  const Statistic rise = StatisticOf(*results, "low_rank_perplexity_rise", "random", 2);
  EXPECT_FALSE(rise.value.has_value());
  EXPECT_EQ(rise.n, 0);
  EXPECT_EQ(rise.because, "no other head is left to draw from");
}

TEST(LowRankReduce, WhatIsNotFiniteIsNull) {
  const auto results = RunAll(LowRankOf("ranks: 1"), [](int64_t, std::vector<v1::Reading>& readings) {
    readings[1].mutable_prompt_loss()->set_nll(std::numeric_limits<double>::infinity());
  });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& table = TableNamed(*results, "conditions");
  EXPECT_FALSE(NullAt(ColumnNamed(table, "perplexity"), 0));
  EXPECT_TRUE(NullAt(ColumnNamed(table, "perplexity"), 1));
  EXPECT_EQ(StatisticOf(*results, "low_rank_perplexity_rise", "named", 1).because,
            "a perplexity is not finite");
}

TEST(LowRankReduce, ReadingsThatAreNotThePlansAreAnError) {
  const std::pair<Change, const char*> changes[] = {
      {[](int64_t task, auto& readings) {
         if (task == 1) readings.pop_back();
       },
       "89 losses were given, not 90"},
      {[](int64_t, auto& readings) { std::swap(readings[0], readings[1]); },
       "the loss of sample 0 under condition 1 was given where sample 0 under condition 0 is due"},
      {[](int64_t, auto& readings) { readings[1] = readings[0]; }, "where sample 0 under condition 1 is due"},
      {[](int64_t task, auto& readings) {
         if (task == 1) readings.push_back(readings.back());
       },
       "where sample 10 under condition 0 is due"},
      {[](int64_t, auto& readings) { readings[2].mutable_prompt_loss()->set_tokens(64); },
       "is over 64 tokens, not 63"},
      {[](int64_t, auto& readings) { readings[2].mutable_head_fit(); }, "no part of this plan"},
  };
  for (const auto& [change, message] : changes) {
    const auto results = RunAll(LowRankOf("ranks: 1"), change);
    EXPECT_EQ(results.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(results.status().message()), HasSubstr(message));
  }
}

TEST(LowRankReduce, NoHeadFoundSaysSo) {
  auto spec = FromText<v1::ExperimentSpec>(
      "name: 'x' models: 'toy' seeds: 42 low_rank { heads { slash_dominant { experiment: 'detect' } } ranks: "
      "[1, 2] perplexity { prompts { uniform_tokens { count: 1 tokens: 64 } } } }");
  Problems problems;
  FindKind("low_rank")->experiment->Resolve(spec, Facts{{ToyModel()}, {}}, problems);
  ASSERT_TRUE(problems.empty());
  Context context = ContextOf({ToyModel()});
  v1::TableSlice none;
  none.set_table("slash_heads");
  for (const char* name : {"model", "seed", "layer", "head", "best_offset", "score", "dominant"}) {
    none.add_columns()->set_name(name);
  }
  context.earlier.push_back({"detect", "digest", {none}});
  FakeReadings readings;
  const auto plan = LowRankExperiment().Plan(spec, context, 1, readings);
  ASSERT_TRUE(plan.ok()) << plan.status();
  readings.Add(1, (**plan)[0].measurement, Measure((**plan)[0].measurement.condition_outcomes()));
  const auto results = LowRankExperiment().Reduce(spec, context, readings);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(TableNamed(*results, "conditions").slice.rows(), 1);
  for (const char* set : {"named", "random"}) {
    EXPECT_EQ(*StatisticOf(*results, "low_rank_heads", set, 0).value, 0);
    EXPECT_EQ(StatisticOf(*results, "low_rank_perplexity_rise", set, 2).because, "the set of heads is empty");
  }
}

}  // namespace
}  // namespace ropelab::experiments
