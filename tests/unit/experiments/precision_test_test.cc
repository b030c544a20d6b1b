#include "server/experiments/precision_test.h"

#include "sweep_fakes.h"

namespace ropelab::experiments {
namespace {

constexpr char kSpec[] =
    "model: 'toy' precision_test { dtypes: [FLOAT32, INT8] detection { needles { context_lengths: 256 "
    "depths: 0.5 samples_per_cell: 10 haystack { generated {} } } threshold: 0.1 } }";

FakeCatalogue OneModel() {
  return FakeCatalogue({ReadingModel()});
}

bool Rounded(const PlannedTask& task) {
  return task.measurement.model().dtype() == v1::Dtype::INT8;
}

TEST(PrecisionTestResolve, ThePapersDtypesAndLength) {
  ModelFacts model = ReadingModel();
  model.config.set_max_positions(4096);
  const v1::ExperimentSpec spec =
      Resolved("model: 'toy' precision_test { detection { needles { haystack { generated {} } } } }",
               FakeCatalogue({model}))
          .resolved;
  EXPECT_THAT(spec.precision_test().dtypes(), testing::ElementsAre(v1::Dtype::FLOAT16, v1::Dtype::INT8));
  EXPECT_THAT(spec.precision_test().detection().needles().context_lengths(), testing::ElementsAre(2048));
  EXPECT_FALSE(spec.has_dtype());
}

TEST(PrecisionTestResolve, NamesTheFieldThatIsWrong) {
  const std::string detection =
      "detection { needles { context_lengths: 256 depths: 0.5 haystack { generated {} } } }";
  EXPECT_THAT(ProblemsOf("model: 'toy' precision_test { dtypes: INT8 " + detection + " }", OneModel()),
              testing::ElementsAre(testing::StartsWith("precision_test.dtypes: name at least two")));
  EXPECT_THAT(
      ProblemsOf("model: 'toy' precision_test { dtypes: [INT8, INT8] " + detection + " }", OneModel()),
      testing::ElementsAre("precision_test.dtypes[1]: stands there twice; name each dtype once"));
  EXPECT_THAT(
      ProblemsOf(std::string("dtype: FLOAT32 ") + kSpec, OneModel()),
      testing::ElementsAre("dtype: precision_test loads the weights in its own dtypes; leave it out"));
}

TEST(PrecisionTestResolve, EveryDtypeCountsAgainstWhatTheServerMakesOfIt) {
  ModelFacts model = ReadingModel();
  model.config.set_layers(1024);
  model.config.set_query_heads(512);  // 8.9 million rows of utilities a dtype
  EXPECT_THAT(ProblemsOf(kSpec, FakeCatalogue({model})),
              testing::UnorderedElementsAre(testing::StartsWith("models: give 17825792 rows of utilities"),
                                            testing::StartsWith("seeds: over all heads")));
}

TEST(PrecisionTestResolve, AStudysDtypeIsNotForIt) {
  v1::Submission submission;
  submission.mutable_study()->set_dtype(v1::Dtype::BFLOAT16);
  *submission.mutable_study()->add_experiments() =
      FromText<v1::ExperimentSpec>(std::string("name: 'p' ") + kSpec);
  EXPECT_TRUE(ProblemsOf(submission, OneModel()).empty());
}

TEST(PrecisionTestPlan, TheSameTasksAtEachDtype) {
  const ResolvedExperiment experiment = Resolved(kSpec, OneModel());
  FakeReadings none;
  const StagePlan plan = PlanOf(experiment, ContextOf({ReadingModel()}), 1, none);
  ASSERT_EQ(plan.size(), 6u);
  for (size_t i = 0; i < 3; ++i) {
    v1::Measurement first = plan[i].measurement, second = plan[i + 3].measurement;
    EXPECT_EQ(first.model().dtype(), v1::Dtype::FLOAT32);
    EXPECT_EQ(second.model().dtype(), v1::Dtype::INT8);
    first.clear_model();
    second.clear_model();
    EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
  }
}

class PrecisionTestReduce : public testing::Test {
 protected:
  // Heads 0 to 4 look at the needle in full precision, 1 to 5 when rounded; query rows of heads that look are
  // the larger ones.
  PrecisionTestReduce() : experiment_(Resolved(kSpec, OneModel())), context_(ContextOf({ReadingModel()})) {
    FakeHeads fake;
    fake.argmax = [](const PlannedTask& task, int64_t head, int64_t) {
      return head >= Rounded(task) && head < 5 + Rounded(task) ? 1.0 : 0.0;
    };
    fake.mass = [](const PlannedTask& task, int64_t head, int64_t) {
      return Rounded(task) && head == 7 ? 0.0 : 0.01 * static_cast<double>(head + 1);
    };
    fake.norm = [](const PlannedTask&, int64_t head, int64_t dim) {
      return static_cast<double>(8 - head + dim);
    };
    Measure(PlanOf(experiment_, context_, 1, readings_), 1, fake, readings_);
    auto results = PrecisionTestExperiment().Reduce(experiment_.resolved, context_, readings_);
    EXPECT_TRUE(results.ok()) << results.status();
    results_ = *std::move(results);
  }
  const ResolvedExperiment experiment_;
  const Context context_;
  FakeReadings readings_;
  Results results_;
};

TEST_F(PrecisionTestReduce, HeadsAndScoresAreHeldAgainstTheFirstDtype) {
  const Table& statistics = TableNamed(results_, "statistics");
  // Shared: 1 to 4. Either: 0 to 5.
  EXPECT_NEAR(*ValueOf(statistics, {"jaccard", "toy", "INT8", "argmax"}), 4.0 / 6, 1e-15);
  EXPECT_EQ(ValueOf(statistics, {"jaccard", "toy", "INT8", "argmax"}, "n"), 6);
  EXPECT_EQ(ValueOf(statistics, {"shared_heads", "toy", "INT8", "argmax"}), 4);
  EXPECT_EQ(ValueOf(statistics, {"retrieval", "toy", "FLOAT32", "argmax", 0.1}), 5);
  EXPECT_EQ(ValueOf(statistics, {"retrieval", "toy", "INT8", "argmax", 0.1}), 5);
  // scipy.stats.spearmanr([1, 1, 1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1, 0, 0])
  EXPECT_NEAR(*ValueOf(statistics, {"spearman", "toy", "INT8", "argmax"}), 0.4666666666666667, 1e-12);
  // scipy.stats.spearmanr(range(1, 9), [1, 2, 3, 4, 5, 6, 7, 0])
  EXPECT_NEAR(*ValueOf(statistics, {"spearman", "toy", "INT8", "mass"}), 0.3333333333333334, 1e-12);
  // Of masses of 0.01 to 0.08 none reaches 0.1 at either dtype.
  EXPECT_EQ(ValueOf(statistics, {"jaccard", "toy", "INT8", "mass"}), std::nullopt);
}

TEST_F(PrecisionTestReduce, TheUtilityTestStandsUnderEachDtype) {
  const Table& statistics = TableNamed(results_, "statistics");
  // Mean head utilities 15.5 down to 8.5. FLOAT32: 13.5 against 9.5. INT8: 12.5 against (15.5 + 9.5 + 8.5)
  // / 3.
  EXPECT_NEAR(*ValueOf(statistics, {"T", "toy", "FLOAT32", "argmax", 0.1}), 4, 1e-12);
  EXPECT_NEAR(*ValueOf(statistics, {"T", "toy", "INT8", "argmax", 0.1}), 12.5 - 33.5 / 3, 1e-12);
  // Pooled SD of [15.5, 14.5, 13.5, 12.5, 11.5] and [10.5, 9.5, 8.5]: sqrt((10 + 2) / 6).
  EXPECT_NEAR(*ValueOf(statistics, {"cohens_d", "toy", "FLOAT32", "argmax", 0.1}), 4 / std::sqrt(2.0), 1e-12);
  for (const char* dtype : {"FLOAT32", "INT8"}) {
    EXPECT_TRUE(ValueOf(statistics, {"p_centred", "toy", dtype, "argmax", 0.1}).has_value()) << dtype;
  }
}

TEST_F(PrecisionTestReduce, EveryHeadStandsUnderEachDtype) {
  const Table& scores = TableNamed(results_, "head_scores");
  // Two dtypes, two metrics, eight heads, pooled and in the one cell.
  EXPECT_EQ(scores.slice.rows(), 2 * 2 * 8 * 2);
  EXPECT_TRUE(NullAt(ColumnNamed(scores, "checkpoint"), 0));
  EXPECT_EQ(TableNamed(results_, "utilities").slice.rows(), 2 * 8 * (16 + 1));
  EXPECT_EQ(TableNamed(results_, "needle_samples").slice.rows(), 2 * 10);
}

}  // namespace
}  // namespace ropelab::experiments
