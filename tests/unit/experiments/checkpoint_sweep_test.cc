#include "server/experiments/checkpoint_sweep.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "sweep_fakes.h"

namespace ropelab::experiments {
namespace {

constexpr char kHashes[] = "0123456789abcdefghijklmnopqrstuvwxyz";

std::vector<ModelFacts> Checkpoints(size_t count) {
  std::vector<ModelFacts> models;
  for (size_t i = 0; i < count; ++i) {
    models.push_back(SweepModel(absl::StrCat("step-", i), kHashes[i]));
  }
  return models;
}

std::string SpecOf(const std::vector<ModelFacts>& models, const std::string& more = "", bool tokens = true) {
  std::string spec = "checkpoint_sweep {\n";
  for (size_t i = 0; i < models.size(); ++i) {
    absl::StrAppend(&spec, "  checkpoints { model: \"", models[i].name, "\"",
                    tokens ? absl::StrCat(" tokens_seen: ", 1000 * (i + 1)) : "", " }\n");
  }
  return absl::StrCat(
      spec,
      "  detection { needles { context_lengths: 256 depths: 0.5 samples_per_cell: 10 haystack "
      "{ generated {} } } threshold: 0.3 }\n",
      more, "}\n");
}

// `counts[i]` heads of checkpoint i always look at the needle, the others never; query rows shrink as 10 - i.
struct Sweep {
  Sweep(const std::vector<double>& counts, const std::string& more = "", bool tokens = true)
      : models(Checkpoints(counts.size())),
        experiment(Resolved(SpecOf(models, more, tokens), FakeCatalogue(models))),
        context(ContextOf(models)) {
    const auto place = [this](const PlannedTask& task) {
      size_t i = 0;
      while (models[i].name != task.model) {
        ++i;
      }
      return i;
    };
    FakeHeads fake;
    fake.argmax = [&counts, place](const PlannedTask& task, int64_t head, int64_t) {
      return static_cast<double>(head) < counts[place(task)] ? 1.0 : 0.0;
    };
    fake.mass = [](const PlannedTask&, int64_t head, int64_t) {
      return 0.1 + 0.01 * static_cast<double>(head);
    };
    fake.norm = [place](const PlannedTask& task, int64_t head, int64_t) {
      return 10.0 - static_cast<double>(place(task)) / 4 + (head == 0 ? 0.5 : 0.0);
    };
    plan = PlanOf(experiment, context, 1, readings);
    Measure(plan, 1, fake, readings);
  }
  Results Reduce() {
    auto results = CheckpointSweepExperiment().Reduce(experiment.resolved, context, readings);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *std::move(results) : Results();
  }

  std::vector<ModelFacts> models;
  ResolvedExperiment experiment;
  Context context;
  FakeReadings readings;
  StagePlan plan;
};

TEST(CheckpointSweepResolve, TheModelsAreTheCheckpoints) {
  const std::vector<ModelFacts> models = Checkpoints(3);
  const v1::ExperimentSpec spec = Resolved(SpecOf(models), FakeCatalogue(models)).resolved;
  EXPECT_THAT(spec.models(), testing::ElementsAre("step-0", "step-1", "step-2"));
  EXPECT_EQ(spec.dtype(), v1::Dtype::FLOAT32);
  EXPECT_EQ(spec.checkpoint_sweep().smoothing_window(), 5);
  EXPECT_EQ(spec.checkpoint_sweep().onset_detector(), v1::OnsetDetector::SMOOTHED);
  EXPECT_EQ(spec.checkpoint_sweep().detection().metrics_size(), 2);
}

TEST(CheckpointSweepResolve, AHashInACheckpointsNameIsCompleted) {
  std::vector<ModelFacts> models = Checkpoints(2);
  std::string text = SpecOf(models);
  text.replace(text.find("step-1"), 6, "step-1@11111111");
  const v1::ExperimentSpec spec = Resolved(text, FakeCatalogue(models)).resolved;
  EXPECT_EQ(spec.models(1), "step-1@" + std::string(16, '1'));
  EXPECT_EQ(spec.checkpoint_sweep().checkpoints(1).model(), spec.models(1));
}

TEST(CheckpointSweepResolve, TwoSamplesACellUnlessTheSpecSaysMore) {
  const std::vector<ModelFacts> models = Checkpoints(2);
  const v1::ExperimentSpec spec =
      Resolved(
          "checkpoint_sweep { checkpoints { model: 'step-0' } checkpoints { model: 'step-1' } detection { "
          "needles { context_lengths: 256 depths: 0.5 haystack { generated {} } } } }",
          FakeCatalogue(models))
          .resolved;
  EXPECT_EQ(spec.checkpoint_sweep().detection().needles().samples_per_cell(), 2);
  EXPECT_FALSE(spec.checkpoint_sweep().checkpoints(0).has_tokens_seen());
}

TEST(CheckpointSweepResolve, NamesTheFieldThatIsWrong) {
  std::vector<ModelFacts> models = Checkpoints(3);
  const auto problems = [&](const std::string& text) { return ProblemsOf(text, FakeCatalogue(models)); };
  const std::string detection =
      "detection { needles { context_lengths: 256 depths: 0.5 haystack { generated {} } } }";
  EXPECT_THAT(problems("checkpoint_sweep { checkpoints { model: 'step-0' } " + detection + " }"),
              testing::ElementsAre(
                  testing::StartsWith("checkpoint_sweep.checkpoints: name at least two checkpoints")));
  EXPECT_THAT(problems("checkpoint_sweep { checkpoints { model: 'step-0' } checkpoints { model: 'lost' } " +
                       detection + " }"),
              testing::ElementsAre(testing::StartsWith(
                  "checkpoint_sweep.checkpoints[1].model: no worker ever announced a model of this name")));
  EXPECT_THAT(
      problems("checkpoint_sweep { checkpoints { model: 'step-0' } checkpoints { model: 'step-0' } " +
               detection + " }"),
      testing::ElementsAre(testing::StartsWith("checkpoint_sweep.checkpoints[1].model: is named twice")));
  EXPECT_THAT(problems("model: 'step-0' " + SpecOf(models)),
              testing::ElementsAre("model: checkpoint_sweep measures its checkpoints' models; leave it out"));
  EXPECT_THAT(
      problems(SpecOf(models, "smoothing_window: 4")),
      testing::ElementsAre(testing::StartsWith("checkpoint_sweep.smoothing_window: a centred median")));
  EXPECT_THAT(problems("checkpoint_sweep { checkpoints { model: 'step-0' tokens_seen: 5 } checkpoints { "
                       "model: 'step-1' tokens_seen: 5 } " +
                       detection + " }"),
              testing::ElementsAre(testing::StartsWith(
                  "checkpoint_sweep.checkpoints[1].tokens_seen: is not above the 5 of the checkpoint")));
  EXPECT_THAT(problems("checkpoint_sweep { checkpoints { model: 'step-0' tokens_seen: 5 } checkpoints { "
                       "model: 'step-1' } " +
                       detection + " }"),
              testing::ElementsAre(testing::StartsWith(
                  "checkpoint_sweep.checkpoints[1].tokens_seen: give tokens_seen for every checkpoint")));
  models[1].config.set_layers(3);
  EXPECT_THAT(problems(SpecOf(models)),
              testing::ElementsAre(testing::StartsWith(
                  "checkpoint_sweep.checkpoints[1].model: has 3 layers of 4 heads of 16, but")));
}

TEST(CheckpointSweepResolve, WhatTheServerMakesOfItIsBounded) {
  std::vector<ModelFacts> models = Checkpoints(3);
  for (ModelFacts& model : models) {
    model.config.set_layers(1024);
    model.config.set_query_heads(4096);
  }
  EXPECT_THAT(ProblemsOf(SpecOf(models), FakeCatalogue(models)),
              testing::UnorderedElementsAre(
                  testing::StartsWith("checkpoint_sweep.detection.needles: over all metrics, cells and the"),
                  testing::StartsWith("checkpoint_sweep.checkpoints: give 213909504 rows of utilities"),
                  testing::StartsWith("seeds: over all heads, models, metrics and thresholds deal out")));
}

TEST(CheckpointSweepResolve, AStudysDtypeIsTakenOverAndItsModelIsNot) {
  const std::vector<ModelFacts> models = Checkpoints(2);
  v1::StudySpec study;
  study.set_model("step-0");
  study.set_dtype(v1::Dtype::BFLOAT16);
  *study.add_experiments() = FromText<v1::ExperimentSpec>(SpecOf(models));
  study.mutable_experiments(0)->set_name("sweep");
  v1::Submission submission;
  *submission.mutable_study() = study;
  Problems problems;
  const ResolvedSubmission resolved = ResolveSubmission(submission, FakeCatalogue(models), problems);
  ASSERT_TRUE(problems.empty()) << problems.problems()[0].remedy();
  EXPECT_EQ(resolved.experiments[0].resolved.dtype(), v1::Dtype::BFLOAT16);
  EXPECT_EQ(resolved.experiments[0].resolved.models_size(), 2);
}

TEST(CheckpointSweepHashes, TwoEqualCheckpointsInARowAreRefusedAtSubmit) {
  std::vector<ModelFacts> models = Checkpoints(4);
  models[2].weights_hash = models[1].weights_hash;
  EXPECT_THAT(ProblemsOf(SpecOf(models), FakeCatalogue(models)),
              testing::ElementsAre(testing::AllOf(
                  testing::StartsWith("checkpoint_sweep.checkpoints[2].model: holds the same weights"),
                  testing::HasSubstr("step-1 (1111111111111111)"))));
}

TEST(CheckpointSweepHashes, HashesThatComeLaterStopThePlan) {
  std::vector<ModelFacts> models = Checkpoints(4);
  std::vector<ModelFacts> unhashed = models;
  for (ModelFacts& model : unhashed) {
    model.weights_hash.clear();
    model.config_hash = std::string(64, model.name.back());
  }
  const ResolvedExperiment experiment = Resolved(SpecOf(models), FakeCatalogue(unhashed));
  models[3].weights_hash = models[2].weights_hash;
  FakeReadings none;
  const auto plan = CheckpointSweepExperiment().Plan(experiment.resolved, ContextOf(models), 1, none);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plan.status().message()),
              testing::HasSubstr("checkpoints 2 and 3, step-2 and step-3, hold the same weights (2222"));
  // Equal weights that do not follow each other are a training that came back, not a copied folder.
  models[3].weights_hash = models[1].weights_hash;
  EXPECT_TRUE(CheckpointSweepExperiment().Plan(experiment.resolved, ContextOf(models), 1, none).ok());
}

TEST(CheckpointSweepPlan, EachCheckpointHasItsDetectionAndItsQueryRows) {
  const Sweep sweep({0, 1, 2});
  ASSERT_EQ(sweep.plan.size(), 3u * 3u);  // ten samples in two blocks, and the query rows
  for (size_t i = 0; i < sweep.plan.size(); ++i) {
    EXPECT_EQ(sweep.plan[i].model, absl::StrCat("step-", i / 3));
    EXPECT_EQ(sweep.plan[i].measurement.has_weight_profile(), i % 3 == 2);
    EXPECT_EQ(sweep.plan[i].measurement.model().weights_hash(), std::string(64, kHashes[i / 3]));
  }
  EXPECT_EQ(sweep.plan[0].measurement.needle_attention().prompts().needle().use(),
            v1::NeedlePrompts::DETECTION);
}

TEST(CheckpointSweepReduce, CountsCurvesAndOnset) {
  Sweep sweep({1, 0, 1, 1, 1, 6, 7, 7, 8, 7});
  const Results results = sweep.Reduce();
  const Table& statistics = TableNamed(results, "statistics");
  EXPECT_EQ(ValueOf(statistics, {"retrieval", "step-5", "", "argmax", 0.3}), 6);
  EXPECT_EQ(ValueOf(statistics, {"retrieval", "step-1", "", "argmax", 0.3}), 0);
  // Medians of five: 1 1 1 1 1 6 7 7 7 7. Levels 1 and 7, so the first above 4 is checkpoint 5.
  EXPECT_EQ(ValueOf(statistics, {"onset", "", "", "argmax"}), 6000);
  EXPECT_EQ(ValueOf(statistics, {"onset", "", "", "argmax"}, "low"), 1);
  EXPECT_EQ(ValueOf(statistics, {"onset", "", "", "argmax"}, "high"), 7);
  EXPECT_EQ(ValueOf(statistics, {"onset", "", "", "argmax"}, "n"), 10);
  EXPECT_EQ(ColumnNamed(statistics, "checkpoint").texts(RowOf(statistics, {"onset", "", "", "argmax"})),
            "step-5");
  // Median of the first two, 0.5, and the largest, 8: the first at or above 4.25 is the same here.
  EXPECT_EQ(ValueOf(statistics, {"onset_paper", "", "", "argmax"}), 6000);
  // Mass is the same everywhere, so its count never rises and has no spread.
  EXPECT_EQ(ValueOf(statistics, {"onset", "", "", "mass"}), std::nullopt);
  EXPECT_EQ(ValueOf(statistics, {"pearson", "", "", "mass"}), std::nullopt);
  // numpy.corrcoef([1, 0, 1, 1, 1, 6, 7, 7, 8, 7], 10 - arange(10) / 4 + 0.5 / 8)
  EXPECT_NEAR(*ValueOf(statistics, {"pearson", "", "", "argmax"}), -0.9022616298260903, 1e-12);
  EXPECT_NEAR(*ValueOf(statistics, {"mean_utility", "step-4"}), 9.0625, 1e-12);

  const Table& series = TableNamed(results, "series");
  std::map<std::string, std::vector<double>> curves;
  for (int row = 0; row < series.slice.rows(); ++row) {
    curves[ColumnNamed(series, "name").texts(row)].push_back(ColumnNamed(series, "y").reals(row));
  }
  EXPECT_THAT(curves["seed_42.argmax.retrieval"], testing::ElementsAre(1, 0, 1, 1, 1, 6, 7, 7, 8, 7));
  EXPECT_THAT(curves["seed_42.argmax.retrieval_smoothed"],
              testing::ElementsAre(1, 1, 1, 1, 1, 6, 7, 7, 7, 7));
  EXPECT_EQ(curves["mean_utility"].size(), 10u);
  EXPECT_EQ(ColumnNamed(series, "x").reals(0), 1000);

  const Table& scores = TableNamed(results, "head_scores");
  EXPECT_EQ(ColumnNamed(scores, "checkpoint").texts(0), ColumnNamed(scores, "model").texts(0));
  EXPECT_EQ(TableNamed(results, "needle_samples").slice.rows(), 10 * 10);
}

TEST(CheckpointSweepReduce, SeedsAreKeptApartBesideTheirMean) {
  const std::vector<ModelFacts> models = Checkpoints(2);
  const ResolvedExperiment experiment = Resolved("seeds: [1, 2] " + SpecOf(models), FakeCatalogue(models));
  FakeReadings readings;
  FakeHeads fake;
  fake.argmax = [](const PlannedTask& task, int64_t head, int64_t) {
    const bool first = task.measurement.needle_attention().prompts().needle().seed() == 1;
    return head < (first ? 2 : 5) ? 1.0 : 0.0;
  };
  fake.mass = [](const PlannedTask&, int64_t, int64_t) { return 0.0; };
  fake.norm = [](const PlannedTask&, int64_t head, int64_t) { return static_cast<double>(head); };
  Measure(PlanOf(experiment, ContextOf(models), 1, readings), 1, fake, readings);
  const auto results = CheckpointSweepExperiment().Reduce(experiment.resolved, ContextOf(models), readings);
  ASSERT_TRUE(results.ok()) << results.status();
  const Table& statistics = TableNamed(*results, "statistics");
  EXPECT_EQ(ValueOf(statistics, {"retrieval", "step-1", "", "argmax", 0.3, 1}), 2);
  EXPECT_EQ(ValueOf(statistics, {"retrieval", "step-1", "", "argmax", 0.3, 2}), 5);
  // SD of 2 and 5, ddof 1.
  EXPECT_NEAR(*ValueOf(statistics, {"retrieval_sd", "step-1", "", "argmax", 0.3}), 3 / std::sqrt(2.0), 1e-12);
  EXPECT_EQ(ValueOf(statistics, {"mean_utility", "step-1"}), 3.5);
}

TEST(CheckpointSweepReduce, WithoutTokensTheAxisIsThePlaceInTheList) {
  Sweep sweep({1, 1, 1, 6, 6, 6}, "onset_detector: PAPER", false);
  const Results results = sweep.Reduce();
  EXPECT_EQ(ValueOf(TableNamed(results, "statistics"), {"onset", "", "", "argmax"}), 3);
  EXPECT_EQ(ColumnNamed(TableNamed(results, "series"), "x").reals(1), 1);
}

// EXPERIMENTS.md section 10: for a step at least 6 checkpoints from either end, a spike or a dip at least 4
// checkpoints away does not move the onset, a nearer one by at most 1.
TEST(CheckpointSweepReduce, AFlipFarFromTheStepDoesNotMoveTheOnset) {
  constexpr int kCheckpoints = 14, kStep = 7;
  for (int flipped = 0; flipped < kCheckpoints; ++flipped) {
    std::vector<double> counts(kCheckpoints, 1);
    std::fill(counts.begin() + kStep, counts.end(), 6);
    counts[static_cast<size_t>(flipped)] = flipped < kStep ? 8 : 0;
    Sweep sweep(counts, "", false);
    const std::optional<double> onset =
        ValueOf(TableNamed(sweep.Reduce(), "statistics"), {"onset", "", "", "argmax"});
    ASSERT_TRUE(onset.has_value()) << flipped;
    EXPECT_LE(std::abs(*onset - kStep), std::abs(flipped - kStep) >= 4 ? 0 : 1) << flipped;
  }
}

TEST(CheckpointSweepReduce, FewerThanFiveCheckpointsHaveNoOnsetAndSayWhy) {
  Sweep sweep({1, 1, 6, 6});
  const Table statistics = TableNamed(sweep.Reduce(), "statistics");
  const int row = RowOf(statistics, {"onset", "", "", "argmax"});
  EXPECT_TRUE(NullAt(ColumnNamed(statistics, "value"), row));
  EXPECT_NE(ColumnNamed(statistics, "undefined_because").texts(row), "");
}

}  // namespace
}  // namespace ropelab::experiments
