#include <cmath>
#include <functional>

#include "fakes.h"
#include "server/experiments/slash_detection.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The score that prompt `sample` gives at a place.
using Planted = std::function<double(int64_t sample, int64_t layer, int64_t head, int64_t offset)>;

// What a worker would send for one task: every layer in two pieces, mean and m2 by their definitions.
std::vector<v1::Reading> Measure(const v1::SlashProfile& profile, const ModelFacts& model,
                                 const Planted& planted) {
  std::vector<v1::Reading> readings;
  const int64_t half = model.config.query_heads() / 2;
  for (int64_t layer = 0; layer < model.config.layers(); ++layer) {
    for (int64_t first_head = 0; first_head < model.config.query_heads(); first_head += half) {
      v1::SlashBlock& block = *readings.emplace_back().mutable_slash_block();
      const v1::SampleBlock& samples = profile.prompts().samples();
      block.set_layer(static_cast<int32_t>(layer));
      block.set_first_head(static_cast<int32_t>(first_head));
      block.set_heads(static_cast<int32_t>(half));
      block.set_first_offset(profile.first_offset());
      block.set_offsets(profile.last_offset() - profile.first_offset() + 1);
      block.set_prompts(samples.count());
      for (int64_t head = first_head; head < first_head + half; ++head) {
        for (int64_t offset = profile.first_offset(); offset <= profile.last_offset(); ++offset) {
          double mean = 0, m2 = 0;
          for (int64_t i = 0; i < samples.count(); ++i) {
            mean += planted(samples.first_sample() + i, layer, head, offset) /
                    static_cast<double>(samples.count());
          }
          for (int64_t i = 0; i < samples.count(); ++i) {
            m2 += std::pow(planted(samples.first_sample() + i, layer, head, offset) - mean, 2);
          }
          block.add_mean(mean);
          block.add_m2(m2);
        }
      }
    }
  }
  return readings;
}

absl::StatusOr<Results> ReduceOf(const ResolvedExperiment& experiment, const Context& context,
                                 const Planted& planted) {
  FakeReadings readings;
  const StagePlan plan = PlanOf(experiment, context, 1, readings);
  for (const PlannedTask& task : plan) {
    const ModelFacts* model = &context.models[0];
    for (const ModelFacts& candidate : context.models) {
      model = candidate.name == task.model ? &candidate : model;
    }
    readings.Add(1, task.measurement, Measure(task.measurement.slash_profile(), *model, planted));
  }
  return FindKind(experiment.kind)->experiment->Reduce(experiment.resolved, context, readings);
}

std::string Spec(const std::string& fields, int count = 12, int tokens = 64,
                 const std::string& common = "model: 'toy'") {
  return "name: 'x' " + common +
         " slash_detection { prompts { uniform_tokens { count: " + std::to_string(count) +
         " tokens: " + std::to_string(tokens) + " } } " + fields + " }";
}

// Row of slash_scores for a toy model with one seed.
int RowOf(int layer, int head, int64_t offset, int64_t first, int64_t offsets) {
  return static_cast<int>((layer * 4 + head) * offsets + offset - first);
}

constexpr double kTwelve[] = {0.11, 0.07, 0.13, 0.09, 0.2, 0.05, 0.12, 0.08, 0.3, 0.02, 0.17, 0.06};

// L1H2 has the twelve scores at offset 3, everything else is far below.
double OneSlash(int64_t sample, int64_t layer, int64_t head, int64_t offset) {
  return layer == 1 && head == 2 && offset == 3 ? kTwelve[sample] : 0.001;
}

// Mean and standard error over the twelve prompts are numpy's.
TEST(SlashReduce, ScoresAreMeansOverPromptsOfUnevenBlocks) {
  const auto results = ReduceOf(Resolved(Spec("")), ContextOf({ToyModel()}), OneSlash);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& scores = TableNamed(*results, "slash_scores");
  ASSERT_EQ(scores.slice.rows(), 2 * 4 * 5);
  const int row = RowOf(1, 2, 3, 0, 5);
  EXPECT_EQ(ColumnNamed(scores, "layer").integers(row), 1);
  EXPECT_EQ(ColumnNamed(scores, "head").integers(row), 2);
  EXPECT_EQ(ColumnNamed(scores, "offset").integers(row), 3);
  EXPECT_NEAR(ColumnNamed(scores, "score").reals(row), 0.11666666666666668, 1e-16);
  EXPECT_NEAR(ColumnNamed(scores, "stderr").reals(row), 0.022167862806642895, 1e-16);
  EXPECT_NEAR(ColumnNamed(scores, "uniform").reals(row), 0.037737434400853094, 1e-15);
  EXPECT_EQ(ColumnNamed(scores, "reachable").integers(row), 1);
  EXPECT_EQ(ColumnNamed(scores, "prompts").integers(row), 12);
  EXPECT_EQ(ColumnNamed(scores, "dominant").integers(row), 1);
  EXPECT_EQ(ColumnNamed(scores, "dominant").integers(row - 1), 0);
  EXPECT_EQ(ColumnNamed(scores, "model").texts(row), "toy");
  EXPECT_EQ(ColumnNamed(scores, "dtype").texts(row), "FLOAT32");
  EXPECT_EQ(ColumnNamed(scores, "numerics_class").texts(row), "0123456789abcdef");
  EXPECT_EQ(ColumnNamed(scores, "seed").integers(row), 42);
  EXPECT_EQ(ColumnNamed(scores, "rows").texts(row), "ALL");
  EXPECT_TRUE(scores.whole_in_sql);
}

TEST(SlashReduce, HeadsCarryTheirBestOffset) {
  const auto results = ReduceOf(Resolved(Spec("")), ContextOf({ToyModel()}), OneSlash);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& heads = TableNamed(*results, "slash_heads");
  ASSERT_EQ(heads.slice.rows(), 8);
  const int row = 6;
  EXPECT_EQ(ColumnNamed(heads, "best_offset").integers(row), 3);
  EXPECT_NEAR(ColumnNamed(heads, "score").reals(row), 0.11666666666666668, 1e-16);
  EXPECT_EQ(ColumnNamed(heads, "dominant_offsets").texts(row), "3");
  EXPECT_EQ(ColumnNamed(heads, "dominant").integers(row), 1);
  EXPECT_EQ(ColumnNamed(heads, "best_offset").integers(0), 0) << "of a tie the smallest";
  EXPECT_EQ(ColumnNamed(heads, "dominant_offsets").texts(0), "");
}

TEST(SlashReduce, AScoreEqualToTheThresholdIsDominant) {
  const auto results = ReduceOf(Resolved(Spec("threshold: 0.25", 8)), ContextOf({ToyModel()}),
                                [](int64_t, int64_t, int64_t head, int64_t offset) {
                                  return head == 1 && offset != 2 ? 0.25 : 0.2499999999;
                                });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& heads = TableNamed(*results, "slash_heads");
  EXPECT_THAT(ColumnNamed(heads, "dominant").integers(), ElementsAre(0, 1, 0, 0, 0, 1, 0, 0));
  EXPECT_EQ(ColumnNamed(heads, "dominant_offsets").texts(1), "0 1 3 4");
}

TEST(SlashReduce, OnePromptHasNoStandardError) {
  const auto results = ReduceOf(Resolved(Spec("", 1)), ContextOf({ToyModel()}), OneSlash);
  ASSERT_TRUE(results.ok()) << results.status();
  const v1::Column& stderrs = ColumnNamed(TableNamed(*results, "slash_scores"), "stderr");
  EXPECT_TRUE(NullAt(stderrs, 0));
  EXPECT_TRUE(NullAt(stderrs, stderrs.reals_size() - 1));
  EXPECT_FALSE(NullAt(ColumnNamed(TableNamed(*results, "slash_scores"), "score"), 0));
}

// A window of 3 keys reaches offsets 0, 1 and 2.
TEST(SlashReduce, OffsetsBeyondASlidingWindowHaveNoScore) {
  ModelFacts model = ToyModel();
  model.config.add_sliding_window(3);
  model.config.add_sliding_window(0);
  const auto results =
      ReduceOf(Resolved(Spec(""), FakeCatalogue({model})), ContextOf({model}),
               [](int64_t, int64_t layer, int64_t, int64_t offset) {
                 return layer == 0 && offset >= 3 ? std::nan("") : 0.5;  // what lies beyond is never read
               });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& scores = TableNamed(*results, "slash_scores");
  for (int64_t offset = 0; offset < 5; ++offset) {
    const int row = RowOf(0, 1, offset, 0, 5);
    EXPECT_EQ(ColumnNamed(scores, "reachable").integers(row), offset < 3 ? 1 : 0);
    EXPECT_EQ(NullAt(ColumnNamed(scores, "score"), row), offset >= 3);
    EXPECT_EQ(NullAt(ColumnNamed(scores, "uniform"), row), offset >= 3);
    EXPECT_EQ(ColumnNamed(scores, "dominant").integers(row), offset < 3 ? 1 : 0);
  }
  EXPECT_EQ(ColumnNamed(scores, "reachable").integers(RowOf(1, 1, 4, 0, 5)), 1);
  EXPECT_EQ(ColumnNamed(TableNamed(*results, "slash_heads"), "dominant_offsets").texts(0), "0 1 2");
}

TEST(SlashReduce, AHeadThatReachesNoOffsetHasNoBest) {
  ModelFacts model = ToyModel();
  model.config.add_sliding_window(16);
  model.config.add_sliding_window(0);
  const auto results =
      ReduceOf(Resolved(Spec("offsets { first: 20 last: 22 } threshold: 0.1"), FakeCatalogue({model})),
               ContextOf({model}), [](int64_t, int64_t, int64_t, int64_t) { return 0.25; });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& heads = TableNamed(*results, "slash_heads");
  EXPECT_TRUE(NullAt(ColumnNamed(heads, "best_offset"), 0));
  EXPECT_TRUE(NullAt(ColumnNamed(heads, "score"), 0));
  EXPECT_EQ(ColumnNamed(heads, "best_offset").integers(4), 20);
}

TEST(SlashReduce, CountsDominantHeadsAndThoseOfTheSmallOffsets) {
  // L0H0 is a slash at 40 only, L0H1 at 0 only, L1H3 at both; none of the small ones is in the range asked
  // for.
  const auto results = ReduceOf(
      Resolved(Spec("offsets { first: 30 last: 50 } threshold: 0.5")), ContextOf({ToyModel()}),
      [](int64_t, int64_t layer, int64_t head, int64_t offset) {
        const bool far = (layer == 0 && head == 0) || (layer == 1 && head == 3);
        const bool near = (layer == 0 && head == 1) || (layer == 1 && head == 3) || (layer == 1 && head == 0);
        return (offset == 40 && far) || (offset == 0 && near) ? 0.75 : 0.01;
      });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& statistics = TableNamed(*results, "statistics");
  EXPECT_THAT(ColumnNamed(statistics, "name").texts(),
              ElementsAre("control_small_offsets", "dominant_heads"));
  EXPECT_THAT(ColumnNamed(statistics, "value").reals(), ElementsAre(3, 2));
  EXPECT_THAT(ColumnNamed(statistics, "threshold").reals(), ElementsAre(0.5, 0.5));
  EXPECT_THAT(ColumnNamed(statistics, "n").integers(), ElementsAre(8, 8));
  EXPECT_TRUE(NullAt(ColumnNamed(statistics, "p"), 0));
  EXPECT_EQ(TableNamed(*results, "slash_scores").slice.rows(), 8 * 21) << "the control's offsets are no rows";
}

TEST(SlashReduce, AWidenedRangeShowsOnlyWhatWasAskedFor) {
  const auto results = ReduceOf(
      Resolved(Spec("offsets { first: 1 last: 2 } threshold: 0.5")), ContextOf({ToyModel()}),
      [](int64_t, int64_t, int64_t head, int64_t offset) { return head == 1 && offset == 7 ? 0.9 : 0.1; });
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(ColumnNamed(TableNamed(*results, "statistics"), "value").reals(), ElementsAre(2, 0));
  EXPECT_EQ(TableNamed(*results, "slash_scores").slice.rows(), 8 * 2);
  EXPECT_EQ(ColumnNamed(TableNamed(*results, "slash_scores"), "offset").integers(0), 1);
}

// Prompts of 12 and 20 tokens; the mean of both means of 1/(i+1) is numpy's.
TEST(SlashReduce, UniformAveragesOverPromptsOfDifferentLengths) {
  const ResolvedExperiment experiment = Resolved(
      "name: 'x' model: 'toy' slash_detection { offsets { first: 2 last: 2 } prompts { token_ids { prompts { "
      "ids: [1, 2, "
      "3, 4, 5, 6, 7, 8, 9, 10, 11, 12] } prompts { ids: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, "
      "16, 17, 18, "
      "19, 20] } } } }");
  const auto results =
      ReduceOf(experiment, ContextOf({ToyModel()}), [](int64_t, int64_t, int64_t, int64_t) { return 0.3; });
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_NEAR(ColumnNamed(TableNamed(*results, "slash_scores"), "uniform").reals(0), 0.09542492522506896,
              1e-15);
}

TEST(SlashReduce, LongRangesKeepHalfTheThresholdAndEachBestInSql) {
  const auto planted = [](int64_t, int64_t layer, int64_t head, int64_t offset) {
    if (layer == 0 && head == 0) {
      return offset == 30 ? 0.5 : offset == 31 ? 0.25 : 0.24;
    }
    return offset == 70 ? 0.002 : 0.001;
  };
  const auto results = ReduceOf(Resolved(Spec("offsets { first: 0 last: 64 } threshold: 0.5", 8, 128)),
                                ContextOf({ToyModel()}), planted);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& scores = TableNamed(*results, "slash_scores");
  EXPECT_FALSE(scores.whole_in_sql);
  EXPECT_EQ(scores.slice.rows(), 8 * 65);
  std::vector<int64_t> expected = {30, 31};
  for (int64_t head = 1; head < 8; ++head) {
    expected.push_back(head * 65);  // a tie: its smallest offset
  }
  EXPECT_EQ(scores.sql_rows, expected);
  const auto all =
      ReduceOf(Resolved(Spec("offsets { first: 0 last: 64 } threshold: 0.5 all_offsets: true", 8, 128)),
               ContextOf({ToyModel()}), planted);
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(TableNamed(*all, "slash_scores").whole_in_sql);
  const auto exactly = ReduceOf(Resolved(Spec("offsets { first: 1 last: 64 } threshold: 0.5", 8, 128)),
                                ContextOf({ToyModel()}), planted);
  ASSERT_TRUE(exactly.ok());
  EXPECT_TRUE(TableNamed(*exactly, "slash_scores").whole_in_sql) << "64 offsets are whole in SQL";
}

TEST(SlashReduce, SortsModelsAndSeedsWhateverTheirOrderInTheSpec) {
  ModelFacts ant = ToyModel("ant");
  const FakeCatalogue catalogue({ToyModel(), ant});
  const ResolvedExperiment experiment =
      Resolved(Spec("", 8, 64, "models: ['toy', 'ant'] seeds: [9, 2]"), catalogue);
  const auto results = ReduceOf(experiment, ContextOf({ToyModel(), ant}),
                                [](int64_t, int64_t, int64_t, int64_t) { return 0.3; });
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& scores = TableNamed(*results, "slash_scores");
  ASSERT_EQ(scores.slice.rows(), 4 * 40);
  EXPECT_EQ(ColumnNamed(scores, "model").texts(0), "ant");
  EXPECT_EQ(ColumnNamed(scores, "seed").integers(0), 2);
  EXPECT_EQ(ColumnNamed(scores, "seed").integers(40), 9);
  EXPECT_EQ(ColumnNamed(scores, "model").texts(80), "toy");
}

TEST(SlashReduce, ANumberThatIsNotFiniteFailsByName) {
  const auto results = ReduceOf(Resolved(Spec("")), ContextOf({ToyModel()}),
                                [](int64_t, int64_t layer, int64_t head, int64_t offset) {
                                  return layer == 1 && head == 0 && offset == 2 ? std::nan("") : 0.1;
                                });
  EXPECT_EQ(results.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(results.status().message()), HasSubstr("L1H0 at offset 2"));
}

TEST(SlashReduce, AMissingBlockIsNotPassedOver) {
  const ResolvedExperiment experiment = Resolved(Spec(""));
  const Context context = ContextOf({ToyModel()});
  FakeReadings readings;
  const StagePlan plan = PlanOf(experiment, context, 1, readings);
  readings.Add(1, plan[0].measurement,
               Measure(plan[0].measurement.slash_profile(), context.models[0], OneSlash));
  const auto results =
      FindKind("slash_detection")->experiment->Reduce(experiment.resolved, context, readings);
  EXPECT_EQ(results.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(results.status().message()), HasSubstr("was measured on 8 prompts, not 12"));
}

// Seed 42 reads ten documents in the order 5, 2, 6, 8, ...; document 2 is too short.
TEST(SlashReduce, CountsTheDocumentsOfACorpus) {
  const FakeCatalogue world({ReadingModel()}, {Books()});
  const Context context = ContextOf(world.Models(), world.Corpora());
  const ResolvedExperiment experiment = Resolved(
      "name: 'x' model: 'toy' slash_detection { prompts { corpus { name: 'books' count: 3 tokens: 64 } } }",
      world);
  FakeReadings readings;
  for (int64_t stage = 1; stage <= 3; ++stage) {
    for (const PlannedTask& task : PlanOf(experiment, context, stage, readings)) {
      v1::Reading lengths;
      for (const int64_t document : task.measurement.text_lengths().documents()) {
        lengths.mutable_document_lengths()->add_documents(document);
        lengths.mutable_document_lengths()->add_tokens(document == 2 ? 5 : 500);
      }
      readings.Add(stage, task.measurement,
                   task.measurement.has_text_lengths()
                       ? std::vector<v1::Reading>{lengths}
                       : Measure(task.measurement.slash_profile(), context.models[0], OneSlash));
    }
  }
  const auto results =
      FindKind("slash_detection")->experiment->Reduce(experiment.resolved, context, readings);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& table = TableNamed(*results, "statistics");
  const auto& names = ColumnNamed(table, "name").texts();
  EXPECT_THAT(names, testing::ElementsAre("control_small_offsets", "corpus_documents_read", "corpus_skipped",
                                          "dominant_heads"));
  EXPECT_EQ(ColumnNamed(table, "value").reals(1), 4);
  EXPECT_EQ(ColumnNamed(table, "n").integers(1), 10);
  EXPECT_EQ(ColumnNamed(table, "value").reals(2), 1);
  EXPECT_EQ(ColumnNamed(table, "n").integers(2), 4);
  EXPECT_TRUE(NullAt(ColumnNamed(table, "threshold"), 1));
  EXPECT_EQ(ColumnNamed(table, "seed").integers(2), 42);
}

}  // namespace
}  // namespace ropelab::experiments
