// Retrieval detections: rules, tasks, and tables computed by hand.
#include <cmath>
#include <map>

#include "fakes.h"
#include "server/experiments/retrieval_statistics.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Spec(const std::string& detection, const std::string& common = "model: 'toy'") {
  return "name: 'x' " + common + " retrieval_detection { " + detection + " }";
}
constexpr char kTwoCells[] =
    "needles { context_lengths: [64, 32] depths: 0.5 samples_per_cell: 5 haystack { generated {} } } ";

std::vector<std::string> ProblemsWith(const std::string& detection) {
  return ProblemsOf(Spec(detection), FakeCatalogue({ReadingModel()}));
}

TEST(RetrievalDetection, DefaultsAreWrittenOut) {
  const ResolvedExperiment experiment = Resolved(Spec(kTwoCells), FakeCatalogue({ReadingModel()}));
  const v1::RetrievalDetection& detection = experiment.resolved.retrieval_detection();
  EXPECT_THAT(detection.metrics(), ElementsAre(v1::Metric::ARGMAX, v1::Metric::MASS));
  EXPECT_EQ(detection.span(), v1::Span::NEEDLE);
  EXPECT_EQ(detection.threshold(), 0.1);
  EXPECT_EQ(experiment.estimate.tasks(), 2);  // ten samples in blocks of eight
}

TEST(RetrievalDetection, TheOrderOfMetricsMovesNothingAndMassIsAlwaysThere) {
  const auto hash = [](const std::string& metrics) {
    return Resolved(Spec(kTwoCells + metrics), FakeCatalogue({ReadingModel()})).spec_hash;
  };
  EXPECT_EQ(hash("metrics: [COPY_WU, ARGMAX]"), hash("metrics: [ARGMAX, MASS, COPY_WU]"));
  EXPECT_NE(hash("metrics: [COPY_WU, ARGMAX]"), hash("metrics: [ARGMAX, MASS]"));
}

TEST(RetrievalDetection, WhatIsWrongIsRefusedByItsField) {
  const std::string needles = kTwoCells;
  EXPECT_THAT(ProblemsWith(needles), IsEmpty());
  EXPECT_THAT(ProblemsWith(needles + "metrics: [MASS, COPY_WU]"),
              ElementsAre("retrieval_detection.metrics[1]: needs ARGMAX among the metrics: it labels as many "
                          "heads as the argmax set has"));
  EXPECT_THAT(ProblemsWith(needles + "metrics: [MASS, MASS]"),
              ElementsAre(HasSubstr("retrieval_detection.metrics[1]: stands there twice")));
  EXPECT_THAT(ProblemsWith(needles + "metrics: UNSPECIFIED"),
              ElementsAre(HasSubstr("retrieval_detection.metrics[0]: ")));
  for (const char* threshold : {"0", "-0.1", "1.5"}) {
    EXPECT_THAT(ProblemsWith(needles + "threshold: " + threshold),
                ElementsAre(HasSubstr("retrieval_detection.threshold: a share of the samples is above 0")));
  }
  EXPECT_THAT(ProblemsOf(Spec(needles), FakeCatalogue({ToyModel()})),
              ElementsAre(HasSubstr("has no tokenizer")));
}

// Two layers of four heads on two KV heads each, made so that everything can be counted by hand: of sample s
// (0..9) head h (0..7) hits when s < hits[h].
constexpr int kHits[] = {10, 9, 0, 0, 1, 0, 0, 0};
constexpr double kMass[] = {0.5, 0.25, 0.125, 0, 0.0625, 0, 0, 0.03125};
constexpr double kCopy[] = {0, 0.5, 0.25, 0.25, 0, 0, 0, 0};

v1::Reading ReadingOf(int64_t sample) {
  v1::Reading reading;
  v1::NeedleHeads& heads = *reading.mutable_needle_heads();
  v1::RealisedNeedle& realised = *heads.mutable_realised();
  realised.set_sample(sample);
  realised.set_fits(true);
  realised.set_tokens(60 + sample);
  for (int head = 0; head < 8; ++head) {
    heads.add_argmax(sample < kHits[head] ? 1 : 0);
    heads.add_mass(kMass[head]);
    heads.add_copy_wu(kCopy[head]);
  }
  return reading;
}

FakeReadings ReadingsOf(const StagePlan& plan, int64_t leave_out = -1) {
  FakeReadings readings;
  for (const PlannedTask& task : plan) {
    const v1::SampleBlock& block = task.measurement.needle_attention().prompts().samples();
    std::vector<v1::Reading> of_task;
    for (int64_t i = 0; i < block.count(); ++i) {
      if (block.first_sample() + i != leave_out) {
        of_task.push_back(ReadingOf(block.first_sample() + i));
      }
    }
    readings.Add(1, task.measurement, of_task);
  }
  return readings;
}

class RetrievalTables : public testing::Test {
 protected:
  RetrievalTables() {
    experiment_ =
        Resolved(Spec(std::string(kTwoCells) + "metrics: [ARGMAX, COPY_WU]", "model: 'toy' seeds: [42, 7]"),
                 FakeCatalogue({ReadingModel()}));
    FakeReadings none;
    plan_ = PlanOf(experiment_, context_, 1, none);
    FakeReadings readings = ReadingsOf(plan_);
    auto results =
        FindKind("retrieval_detection")->experiment->Reduce(experiment_.resolved, context_, readings);
    EXPECT_TRUE(results.ok()) << results.status();
    results_ = *std::move(results);
  }

  // Value and n of the rows of seed 42, or without seed, by name, detector and threshold.
  std::map<std::string, std::pair<double, int64_t>> Statistics() {
    const Table& table = TableNamed(results_, "statistics");
    std::map<std::string, std::pair<double, int64_t>> rows;
    for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
      const v1::Column& seed = ColumnNamed(table, "seed");
      if (!NullAt(seed, row) && seed.integers(row) != 42) {
        continue;
      }
      std::string key = ColumnNamed(table, "name").texts(row);
      if (!NullAt(ColumnNamed(table, "detector"), row)) {
        absl::StrAppend(&key, " ", ColumnNamed(table, "detector").texts(row));
      }
      if (!NullAt(ColumnNamed(table, "threshold"), row)) {
        absl::StrAppend(&key, " ", ColumnNamed(table, "threshold").reals(row));
      }
      const double value =
          NullAt(ColumnNamed(table, "value"), row) ? std::nan("") : ColumnNamed(table, "value").reals(row);
      rows[key] = {value, ColumnNamed(table, "n").integers(row)};
    }
    return rows;
  }

  ResolvedExperiment experiment_;
  Context context_ = ContextOf({ReadingModel()});
  StagePlan plan_;
  Results results_;
};

TEST_F(RetrievalTables, TasksAreBlocksOfOneModelAndSeed) {
  ASSERT_EQ(plan_.size(), 4u);
  EXPECT_EQ(plan_[0].measurement.needle_attention().prompts().samples().count(), 8);
  EXPECT_EQ(plan_[1].measurement.needle_attention().prompts().samples().count(), 2);
  EXPECT_EQ(plan_[0].measurement.needle_attention().prompts().needle().seed(), 42u);
  EXPECT_EQ(plan_[2].measurement.needle_attention().prompts().needle().seed(), 7u);
  EXPECT_EQ(plan_[0].measurement.needle_attention().prompts().needle().use(), v1::NeedlePrompts::DETECTION);
  EXPECT_THAT(plan_[0].measurement.needle_attention().metrics(),
              ElementsAre(v1::Metric::ARGMAX, v1::Metric::MASS, v1::Metric::COPY_WU));
  EXPECT_EQ(plan_[0].measurement.needle_attention().span(), v1::Span::NEEDLE);
  EXPECT_EQ(plan_[0].model, "toy");
  FakeReadings readings = ReadingsOf(plan_);
  const auto next =
      FindKind("retrieval_detection")->experiment->Plan(experiment_.resolved, context_, 2, readings);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE(next->has_value());
}

TEST_F(RetrievalTables, CountsByThreshold) {
  const auto rows = Statistics();
  EXPECT_THAT(rows.at("retrieval argmax 0.05"), testing::Pair(3, 8));  // 1 of 10 hits is enough
  EXPECT_THAT(rows.at("retrieval argmax 0.1"), testing::Pair(3, 8));
  EXPECT_THAT(rows.at("retrieval argmax 0.15"), testing::Pair(2, 8));  // 2 of 10 are needed
  EXPECT_THAT(rows.at("retrieval mass 0.1"), testing::Pair(3, 8));
  EXPECT_THAT(rows.at("retrieval mass 0.3"), testing::Pair(1, 8));
  EXPECT_THAT(rows.at("retrieval copy_wu 0.15"), testing::Pair(2, 8));
  EXPECT_THAT(rows.at("retrieval_share argmax 0.1"), testing::Pair(0.375, 8));
  EXPECT_THAT(rows.at("exact_zeros argmax"), testing::Pair(0.625, 8));
  EXPECT_THAT(rows.at("exact_zeros copy_wu"), testing::Pair(0.625, 8));
  EXPECT_THAT(rows.at("needles_kept"), testing::Pair(10, 10));
  EXPECT_THAT(rows.at("needles_dropped"), testing::Pair(0, 10));
}

TEST_F(RetrievalTables, AgreementOfDetectors) {
  const auto rows = Statistics();
  // The best three: argmax L0H0 L0H1 L1H0, mass L0H0 L0H1 L0H2, copy L0H1 L0H2 (more mass) L0H3.
  EXPECT_THAT(rows.at("jaccard argmax mass 0.1"), testing::Pair(0.5, 3));
  EXPECT_THAT(rows.at("jaccard argmax copy_wu 0.1"), testing::Pair(0.2, 3));
  EXPECT_THAT(rows.at("jaccard mass copy_wu 0.1"), testing::Pair(0.5, 3));
  // scipy.stats.spearmanr on the means.
  EXPECT_NEAR(rows.at("spearman argmax mass").first, 0.8105746418436737, 1e-12);
  EXPECT_NEAR(rows.at("spearman argmax copy_wu").first, 0.0629940788348712, 1e-12);
  EXPECT_EQ(rows.at("spearman argmax mass").second, 8);
}

TEST_F(RetrievalTables, GroupsThatShareKeys) {
  const auto rows = Statistics();
  // By argmax L0H0 and L0H1 share keys, L1H0 is alone in its group of two.
  EXPECT_THAT(rows.at("active_groups argmax 0.1"), testing::Pair(2, 4));
  EXPECT_THAT(rows.at("retrieval_per_active_group argmax 0.1"), testing::Pair(1.5, 2));
  EXPECT_THAT(rows.at("full_groups_share argmax 0.1"), testing::Pair(0.5, 2));
}

TEST_F(RetrievalTables, WhatTheTableAcrossModelsNeeds) {
  const auto rows = Statistics();
  EXPECT_THAT(rows.at("retrieval_over_seeds argmax 0.1"), testing::Pair(3, 2));
  EXPECT_THAT(rows.at("retrieval_share_over_seeds argmax 0.1"), testing::Pair(0.375, 2));
  EXPECT_EQ(rows.at("query_heads_per_kv_head").first, 2);
  EXPECT_TRUE(std::isnan(rows.at("rope_base").first));  // the toy announces no frequencies
}

TEST_F(RetrievalTables, HeadScoresPooledAndByCell) {
  const Table& table = TableNamed(results_, "head_scores");
  ASSERT_EQ(table.slice.rows(), 2 * 3 * 8 * 3);  // seeds, metrics, heads, all and two cells
  int pooled = 0, cells = 0;
  for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
    const int64_t head =
        4 * ColumnNamed(table, "layer").integers(row) + ColumnNamed(table, "head").integers(row);
    const bool all = NullAt(ColumnNamed(table, "context_length"), row);
    EXPECT_EQ(all, NullAt(ColumnNamed(table, "depth"), row));
    EXPECT_EQ(all, !NullAt(ColumnNamed(table, "retrieval"), row));
    if (ColumnNamed(table, "metric").texts(row) != "argmax" ||
        ColumnNamed(table, "seed").integers(row) != 42) {
      EXPECT_EQ(NullAt(ColumnNamed(table, "hits"), row), ColumnNamed(table, "metric").texts(row) != "argmax");
      continue;
    }
    const int64_t hits = ColumnNamed(table, "hits").integers(row);
    if (all) {
      ++pooled;
      EXPECT_EQ(hits, kHits[head]);
      EXPECT_EQ(ColumnNamed(table, "samples").integers(row), 10);
      EXPECT_EQ(ColumnNamed(table, "score").reals(row), kHits[head] / 10.0);
      EXPECT_EQ(ColumnNamed(table, "retrieval").integers(row), kHits[head] >= 1 ? 1 : 0);
      EXPECT_EQ(ColumnNamed(table, "threshold").reals(row), 0.1);
    } else if (ColumnNamed(table, "context_length").integers(row) == 32) {  // samples 0 to 4
      ++cells;
      EXPECT_EQ(hits, std::min(kHits[head], 5));
      EXPECT_EQ(ColumnNamed(table, "samples").integers(row), 5);
    }
  }
  EXPECT_EQ(pooled, 8);
  EXPECT_EQ(cells, 8);
}

TEST_F(RetrievalTables, CountsByContextLengthAndDepth) {
  const Table& table = TableNamed(results_, "series");
  std::map<std::string, double> rows;
  for (int row = 0; row < static_cast<int>(table.slice.rows()); ++row) {
    rows[absl::StrCat(ColumnNamed(table, "name").texts(row), " ", ColumnNamed(table, "x").reals(row))] =
        ColumnNamed(table, "y").reals(row);
  }
  // Of samples 0 to 4 L1H0 hits one, of 5 to 9 none.
  EXPECT_EQ(rows.at("retrieval_by_context_length.argmax.seed_42 32"), 3);
  EXPECT_EQ(rows.at("retrieval_by_context_length.argmax.seed_42 64"), 2);
  EXPECT_EQ(rows.at("retrieval_by_depth.argmax.seed_42 0.5"), 3);
}

TEST_F(RetrievalTables, EverySampleIsListed) {
  const Table& table = TableNamed(results_, "needle_samples");
  EXPECT_EQ(table.slice.rows(), 20);
}

TEST_F(RetrievalTables, ASampleThatIsMissingOrNoNumberIsNoResult) {
  FakeReadings missing = ReadingsOf(plan_, 3);
  const auto reduce = [&](StageReadings& readings) {
    return FindKind("retrieval_detection")
        ->experiment->Reduce(experiment_.resolved, context_, readings)
        .status();
  };
  EXPECT_THAT(reduce(missing).message(), HasSubstr("seed 42: 9 needle samples were read, not 10"));
  FakeReadings broken;
  v1::Reading reading = ReadingOf(0);
  reading.mutable_needle_heads()->set_mass(5, std::nan(""));
  broken.Add(1, plan_[0].measurement, {reading});
  EXPECT_EQ(reduce(broken).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(reduce(broken).message(), HasSubstr("metric mass of L1H1 is nan"));
}

// Of two tokenizers one makes sample 1 of the shorter context too long.
TEST(SeveralModels, ASampleThatFitsOneOfThemIsDroppedForAllAndCounted) {
  ModelFacts other = ReadingModel("other", 'e');
  other.weights_hash = std::string(64, 'f');
  const FakeCatalogue catalogue({ReadingModel(), other});
  const ResolvedExperiment experiment = Resolved(Spec(kTwoCells, "models: ['toy', 'other']"), catalogue);
  const Context context = ContextOf({ReadingModel(), other});
  FakeReadings readings;
  for (const PlannedTask& task : PlanOf(experiment, context, 1, readings)) {
    ASSERT_TRUE(task.measurement.has_text_lengths());
    const v1::PromptBlock& block = task.measurement.text_lengths().needles();
    const bool tight = task.measurement.model().tokenizer_hash() == other.tokenizer_hash;
    std::vector<v1::Reading> lengths;
    for (int64_t i = 0; i < block.samples().count(); ++i) {
      v1::RealisedNeedle& realised = *lengths.emplace_back().mutable_realised_needle();
      realised.set_sample(block.samples().first_sample() + i);
      realised.set_fits(!tight || realised.sample() != 1);
    }
    readings.Add(1, task.measurement, lengths);
  }
  const StagePlan plan = PlanOf(experiment, context, 2, readings);
  ASSERT_EQ(plan.size(), 4u);  // nine samples each
  for (const PlannedTask& task : plan) {
    const v1::PromptBlock& block = task.measurement.needle_attention().prompts();
    std::vector<v1::Reading> of_task;
    for (int64_t i = 0; i < block.samples().count(); ++i) {
      EXPECT_FALSE(block.needle().samples(static_cast<int>(i)).context_length() == 32 &&
                   block.needle().samples(static_cast<int>(i)).index() == 1);
      of_task.push_back(ReadingOf(block.samples().first_sample() + i));
    }
    readings.Add(2, task.measurement, of_task);
  }
  const auto results =
      FindKind("retrieval_detection")->experiment->Reduce(experiment.resolved, context, readings);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& statistics = TableNamed(*results, "statistics");
  int counted = 0;
  for (int row = 0; row < static_cast<int>(statistics.slice.rows()); ++row) {
    const std::string& name = ColumnNamed(statistics, "name").texts(row);
    if (name == "needles_kept" || name == "needles_dropped") {
      ++counted;
      EXPECT_EQ(ColumnNamed(statistics, "value").reals(row), name == "needles_kept" ? 9 : 1);
      EXPECT_EQ(ColumnNamed(statistics, "n").integers(row), 10);
    }
  }
  EXPECT_EQ(counted, 4);
  const Table& samples = TableNamed(*results, "needle_samples");
  EXPECT_EQ(samples.slice.rows(), 20);
  int64_t dropped = 0;
  for (const int64_t kept : ColumnNamed(samples, "kept").integers()) {
    dropped += 1 - kept;
  }
  EXPECT_EQ(dropped, 2);
}

TEST(RopeBase, IsReadOffThePowers) {
  v1::ModelConfig config;
  for (int pair = 0; pair < 64; ++pair) {
    config.add_inv_freq(static_cast<float>(std::pow(500000.0, -pair / 64.0)));
  }
  EXPECT_EQ(RopeBaseOf(config), 500000.0);
  config.set_inv_freq(40, config.inv_freq(40) / 8);
  EXPECT_EQ(RopeBaseOf(config), std::nullopt);
}

}  // namespace
}  // namespace ropelab::experiments
