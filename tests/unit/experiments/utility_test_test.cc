#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "fakes.h"
#include "server/experiments/detection.h"
#include "server/experiments/utility_summary.h"
#include "server/experiments/utility_test.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kListed[] = "heads { list { head { layer: 0 head: 1 } head { layer: 1 head: 3 } } } ";
constexpr char kNeedleDetection[] =
    "experiments { name: 'detect' retrieval_detection { "
    "needles { context_lengths: 64 depths: 0.5 samples_per_cell: 2 haystack { generated {} } } } } ";

std::string Lone(const std::string& test, const std::string& common = "model: 'toy'") {
  return absl::StrCat("name: 'u' ", common, " utility_test { ", test, " }");
}

std::string Study(const std::string& test, const std::string& common = "model: 'toy'") {
  return absl::StrCat("name: 's' ", common, " ", kNeedleDetection, "experiments { name: 'u' utility_test { ",
                      test, " } }");
}

const FakeCatalogue& Catalogue() {
  static const FakeCatalogue catalogue({ReadingModel(), ReadingModel("other", 'f')});
  return catalogue;
}

ResolvedExperiment ResolvedTest(const std::string& test, const std::string& common = "model: 'toy'") {
  Problems problems;
  const ResolvedSubmission study = ResolveSubmission(StudyOf(Study(test, common)), Catalogue(), problems);
  for (const v1::FieldProblem& problem : problems.problems()) {
    ADD_FAILURE() << problem.field() << " (" << problem.value() << "): " << problem.remedy();
  }
  return study.experiments.at(1);
}

TEST(UtilityTest, WritesThePapersDefaultsOut) {
  const v1::UtilityTest test =
      ResolvedTest("heads { retrieval { experiment: 'detect' } }").resolved.utility_test();
  EXPECT_THAT(test.thresholds(), ElementsAre(0.05, 0.1, 0.15, 0.2, 0.25, 0.3));
  EXPECT_EQ(test.permutations(), 10000);
  EXPECT_TRUE(test.has_fold_norm());
  EXPECT_FALSE(test.fold_norm());
  EXPECT_EQ(test.correlation(), v1::PartialCorrelation::DEMEAN_FIRST);
  EXPECT_EQ(Resolved(Lone(kListed)).resolved.utility_test().thresholds_size(), 0);
}

TEST(UtilityTest, RefusesWhatItCannotTest) {
  const std::string list = kListed;
  EXPECT_THAT(ProblemsOf(Lone(list + "thresholds: 0.1")),
              ElementsAre(HasSubstr("utility_test.thresholds: a listed set has no scores")));
  EXPECT_THAT(ProblemsOf(Lone(list + "permutations: 0")),
              ElementsAre("utility_test.permutations: give 1 to 1000000 permutations"));
  EXPECT_THAT(ProblemsOf(Lone("")), ElementsAre(HasSubstr("utility_test.heads: ")));
  EXPECT_THAT(ProblemsOf(Lone("heads { list { head { layer: 2 head: 0 } } }")),
              ElementsAre(HasSubstr("utility_test.heads.list.head[0]: model toy has layers 0 to 1")));
  const auto of_study = [](const std::string& test) {
    return ProblemsOf(StudyOf(Study("heads { retrieval { experiment: 'detect' } } " + test)), Catalogue());
  };
  EXPECT_THAT(of_study("thresholds: [0.1, 1.5]"),
              ElementsAre("experiments.u.utility_test.thresholds[1]: a threshold is above 0 and at most 1"));
  EXPECT_THAT(of_study("thresholds: [0.1, 0.1]"),
              ElementsAre(HasSubstr("thresholds[1]: stands there twice")));
  EXPECT_THAT(of_study("thresholds: [0.1, 0.2]"), IsEmpty());
}

TEST(UtilityTest, MeasuresEachModelOnceWhateverItsSeeds) {
  const ResolvedExperiment experiment =
      ResolvedTest("heads { retrieval { experiment: 'detect' } } fold_norm: true",
                   "models: ['toy', 'other'] seeds: [1, 2, 3]");
  const Context context = ContextOf({ReadingModel(), ReadingModel("other", 'f')});
  FakeReadings none;
  const StagePlan plan = PlanOf(experiment, context, 1, none);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[1].model, "other");
  EXPECT_TRUE(plan[0].measurement.weight_profile().query_rows().fold_norm());
  EXPECT_TRUE(PlanOf(experiment, context, 2, none).empty());
}

using Utility = std::function<double(int layer, int head)>;

// Every row of a head has the head's utility.
void AddRows(const Utility& utility, FakeReadings& readings) {
  std::vector<v1::Reading> said;
  for (int layer = 0; layer < 2; ++layer) {
    v1::QueryRowNorms& norms = *said.emplace_back().mutable_query_row_norms();
    norms.set_layer(layer);
    norms.set_heads(4);
    norms.set_head_dim(16);
    for (int row = 0; row < 64; ++row) {
      norms.add_norm(utility(layer, row / 16));
    }
  }
  readings.Add(1, {}, said);
}

// Of eight heads with the given share of hits on ten samples; mass is ten sixteenths of it.
void AddScores(const std::string& label, uint64_t seed, const std::vector<int>& hits,
               HeadScoresTable& table) {
  const auto detection =
      FromText<v1::RetrievalDetection>("needles { context_lengths: 64 depths: 0.5 } metrics: [ARGMAX, MASS]");
  DetectionScores scores(detection, ToyModel().config);
  for (int64_t index = 0; index < 10; ++index) {
    v1::Measurement measurement;
    v1::PromptBlock& prompts = *measurement.mutable_needle_attention()->mutable_prompts();
    prompts.mutable_samples()->set_first_sample(index);
    prompts.mutable_samples()->set_count(1);
    v1::NeedleSample& sample = *prompts.mutable_needle()->add_samples();
    sample.set_context_length(64);
    sample.set_depth(0.5);
    sample.set_index(index);
    v1::Reading reading;
    v1::NeedleHeads& heads = *reading.mutable_needle_heads();
    heads.mutable_realised()->set_sample(index);
    heads.mutable_realised()->set_fits(true);
    for (const int hit : hits) {
      heads.add_argmax(index < hit ? 1 : 0);
      heads.add_mass(hit / 16.0);
    }
    const absl::Status status = scores.Add(measurement, reading);
    ASSERT_TRUE(status.ok()) << status;
  }
  table.Add({label, v1::Dtype::FLOAT32, std::nullopt, seed}, scores, 0.1);
}

struct Row {
  std::optional<double> value, low, high, p;
  std::optional<int64_t> n;
  std::string because;
};
// (name, model, detector, threshold, seed); -1 stands for an empty threshold or seed.
using Rows = std::map<std::tuple<std::string, std::string, std::string, double, int64_t>, Row>;

Rows RowsOf(const Results& results) {
  const Table& table = TableNamed(results, "statistics");
  const auto real = [&](const char* name, int row) -> std::optional<double> {
    const v1::Column& column = ColumnNamed(table, name);
    return NullAt(column, row) ? std::nullopt : std::optional<double>(column.reals(row));
  };
  const auto integer = [&](const char* name, int row) -> std::optional<int64_t> {
    const v1::Column& column = ColumnNamed(table, name);
    return NullAt(column, row) ? std::nullopt : std::optional<int64_t>(column.integers(row));
  };
  Rows rows;
  for (int row = 0; row < table.slice.rows(); ++row) {
    const auto text = [&](const char* name) { return ColumnNamed(table, name).texts(row); };
    const bool first =
        rows.emplace(std::make_tuple(text("name"), text("model"), text("detector"),
                                     real("threshold", row).value_or(-1), integer("seed", row).value_or(-1)),
                     Row{real("value", row), real("low", row), real("high", row), real("p", row),
                         integer("n", row), text("undefined_because")})
            .second;
    EXPECT_TRUE(first) << text("name") << " stands there twice";
  }
  return rows;
}

// Utilities 10 + head, in layer 1 ten more.
double Rising(int layer, int head) {
  return 10 + 10 * layer + head;
}

Rows Reduced(const ResolvedExperiment& experiment, const Context& context, FakeReadings& readings) {
  const auto results = FindKind("utility_test")->experiment->Reduce(experiment.resolved, context, readings);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? RowsOf(*results) : Rows();
}

TEST(UtilityTest, TestsAListedSetByHand) {
  FakeReadings readings;
  AddRows(Rising, readings);
  const ResolvedExperiment experiment = Resolved(Lone(std::string(kListed) + "permutations: 4000"));
  const Rows rows = Reduced(experiment, ContextOf({ToyModel()}), readings);
  const auto at = [&](const std::string& name) { return rows.at({name, "toy", "list", -1, 42}); };
  // Labelled 11 and 23, the rest 10, 12, 13, 20, 21, 22.
  EXPECT_DOUBLE_EQ(*at("T").value, 17 - 98.0 / 6);
  EXPECT_EQ(*at("T").n, 8);
  EXPECT_TRUE(at("T").low.has_value());
  EXPECT_LE(*at("T").low, *at("T").high);
  EXPECT_DOUBLE_EQ(*at("retrieval").value, 2);
  EXPECT_DOUBLE_EQ(*at("layers_without_both").value, 0);
  EXPECT_EQ(*at("layers_without_both").n, 2);
  // Both layers have one of four labelled: the mean over labellings is that of equal layer shares.
  EXPECT_NEAR(*at("null_mean").value, (11.5 + 21.5) / 2 - (132 - 33) / 6.0, 1e-12);
  // Of the 16 labellings T* is (a + b) / 2 - (132 - a - b) / 6, and the observed sum 34 is one off the mean
  // 33: only the four labellings of sum 33 lie nearer.
  EXPECT_NEAR(*at("p_centred").value, 12.0 / 16, 0.03);
  EXPECT_EQ(at("p_centred").value, at("p_centred").p);
  EXPECT_EQ(*at("p_centred").n, 4000);
  // Squared deviations 72 and 412 / 3, over 6.
  EXPECT_NEAR(*at("cohens_d").value, (17 - 98.0 / 6) / std::sqrt((72 + 412.0 / 3) / 6), 1e-12);
  EXPECT_TRUE(at("welch_p").value.has_value());
  EXPECT_EQ(at("partial_spearman").because, "a listed set has no head scores");
  EXPECT_FALSE(at("partial_spearman_rank_first").value.has_value());
  // One model: nothing to correct.
  EXPECT_EQ(at("p_bh").value, at("p_centred").value);
  EXPECT_EQ(*at("p_bh").n, 1);
  EXPECT_EQ(rows.count({"T", "toy", "list", -1, -1}), 0u);  // one seed has no spread
}

Context Detected(std::vector<ModelFacts> models,
                 const std::map<std::pair<std::string, uint64_t>, std::vector<int>>& hits) {
  HeadScoresTable table("0123456789abcdef");
  for (const auto& [place, of_heads] : hits) {
    AddScores(place.first, place.second, of_heads, table);
  }
  Context context = ContextOf(std::move(models));
  context.earlier.push_back({"detect", "digest", {table.Finish().slice}});
  return context;
}

TEST(UtilityTest, LabelsAnewAtEachThresholdUnderBothDetectors) {
  FakeReadings readings;
  AddRows(Rising, readings);
  const ResolvedExperiment experiment = ResolvedTest(
      "heads { retrieval { experiment: 'detect' metric: ARGMAX threshold: 0.2 } } thresholds: [0.1, 0.5, "
      "1.0] "
      "permutations: 50");
  // Hits of ten; mass is a sixteenth of them.
  const Context context = Detected({ReadingModel()}, {{{"toy", 42}, {0, 1, 2, 5, 0, 9, 2, 2}}});
  const Rows rows = Reduced(experiment, context, readings);
  const auto labelled = [&](const std::string& detector, double threshold) {
    return *rows.at({"retrieval", "toy", detector, threshold, 42}).value;
  };
  EXPECT_DOUBLE_EQ(labelled("argmax", 0.1), 6);
  EXPECT_DOUBLE_EQ(labelled("argmax", 0.2), 5);
  EXPECT_DOUBLE_EQ(labelled("argmax", 0.5), 2);
  EXPECT_DOUBLE_EQ(labelled("argmax", 1.0), 0);
  EXPECT_DOUBLE_EQ(labelled("mass", 0.1), 5);
  EXPECT_DOUBLE_EQ(labelled("mass", 0.2), 2);
  EXPECT_DOUBLE_EQ(labelled("mass", 0.5), 1);
  EXPECT_EQ(rows.at({"T", "toy", "argmax", 1.0, 42}).because, "no head is labelled");
  // Heads 0:3 and 1:1, that is 13 and 21.
  EXPECT_DOUBLE_EQ(*rows.at({"T", "toy", "argmax", 0.5, 42}).value, 17 - 98.0 / 6);
}

TEST(UtilityTest, CorrelatesUtilityWithTheScoreWithinLayers) {
  FakeReadings readings;
  AddRows(Rising, readings);
  // Less its layer's mean the score is -2.5, -1.5, 0.5, 3.5 and -3.5, -1.5, 0.5, 4.5 tenths.
  const Context context = Detected({ReadingModel()}, {{{"toy", 42}, {0, 1, 3, 6, 0, 2, 4, 8}}});
  const Rows rows = Reduced(
      ResolvedTest("heads { retrieval { experiment: 'detect' } } permutations: 10 correlation: RANK_FIRST"),
      context, readings);
  const Row demean = rows.at({"partial_spearman", "toy", "argmax", -1, 42});
  // scipy: spearmanr([-1.5, -.5, .5, 1.5] * 2, [-2.5, -1.5, .5, 3.5, -3.5, -1.5, .5, 4.5])
  EXPECT_NEAR(*demean.value, 0.9877295966495896, 1e-12);
  EXPECT_FALSE(demean.low.has_value());
  EXPECT_EQ(*demean.n, 8);
  const Row rank = rows.at({"partial_spearman_rank_first", "toy", "mass", -1, 42});
  EXPECT_GT(*rank.value, 0.9);
  EXPECT_TRUE(rank.low.has_value() && rank.high.has_value());
}

TEST(UtilityTest, SumsUpSeedsAndCorrectsAcrossModels) {
  FakeReadings readings;
  AddRows(Rising, readings);
  AddRows([](int layer, int head) { return 5 + layer + (head == 3 ? 40.0 : head); }, readings);
  const ResolvedExperiment experiment = ResolvedTest(
      "heads { retrieval { experiment: 'detect' threshold: 0.3 } } thresholds: 0.3 permutations: 200",
      "models: ['toy', 'other'] seeds: [1, 2, 3]");
  const std::vector<int> upper = {0, 0, 0, 5, 0, 0, 0, 5}, mixed = {5, 0, 0, 0, 0, 0, 0, 5}, none(8, 0);
  const Context context = Detected({ReadingModel(), ReadingModel("other", 'f')}, {{{"toy", 1}, upper},
                                                                                  {{"toy", 2}, mixed},
                                                                                  {{"toy", 3}, none},
                                                                                  {{"other", 1}, upper},
                                                                                  {{"other", 2}, upper},
                                                                                  {{"other", 3}, upper}});
  const Rows rows = Reduced(experiment, context, readings);
  const auto at = [&](const std::string& name, const std::string& model, int64_t seed) {
    return rows.at({name, model, "argmax", 0.3, seed});
  };
  // T of seeds 1 and 2: (13 + 23) / 2 - 96 / 6 = 2 and (10 + 23) / 2 - 99 / 6 = 0; seed 3 has no head.
  EXPECT_DOUBLE_EQ(*at("T", "toy", 1).value, 2);
  EXPECT_DOUBLE_EQ(*at("T", "toy", 2).value, 0);
  EXPECT_DOUBLE_EQ(*at("T", "toy", -1).value, 1);
  EXPECT_EQ(*at("T", "toy", -1).n, 2);
  EXPECT_DOUBLE_EQ(*at("T_sd", "toy", -1).value, std::sqrt(2));
  EXPECT_DOUBLE_EQ(*at("p_centred", "toy", -1).p,
                   (*at("p_centred", "toy", 1).value + *at("p_centred", "toy", 2).value) / 2);
  // Two models: the smaller p doubles unless the larger one is smaller than that.
  for (const int64_t seed : {int64_t{1}, int64_t{2}, int64_t{-1}}) {
    const double a = *at("p_centred", "toy", seed).value, b = *at("p_centred", "other", seed).value;
    EXPECT_DOUBLE_EQ(*at("p_bh", "toy", seed).p, a < b ? std::min(2 * a, b) : a) << seed;
    EXPECT_EQ(*at("p_bh", "toy", seed).n, 2);
  }
  EXPECT_EQ(at("p_bh", "toy", 3).because, "no head is labelled");
  EXPECT_EQ(*at("p_bh", "other", 3).n, 1);
  EXPECT_EQ(at("p_bh", "other", 3).p, at("p_centred", "other", 3).p);
}

TEST(UtilityTest, TablesHoldUtilitiesAndTheirMeanPerDimension) {
  FakeReadings readings;
  AddRows(Rising, readings);
  const ResolvedExperiment experiment = Resolved(Lone(std::string(kListed) + "permutations: 5"));
  const auto results =
      FindKind("utility_test")->experiment->Reduce(experiment.resolved, ContextOf({ToyModel()}), readings);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(TableNamed(*results, "utilities").slice.rows(), 8 * 17);
  const Table& series = TableNamed(*results, "series");
  ASSERT_EQ(series.slice.rows(), 16);
  EXPECT_EQ(ColumnNamed(series, "name").texts(3), "utility_per_dim");
  EXPECT_DOUBLE_EQ(ColumnNamed(series, "x").reals(3), 3);
  EXPECT_DOUBLE_EQ(ColumnNamed(series, "y").reals(3), 16.5);
}

TEST(UtilityTest, PublishedScoresLabelAndCorrelateOnTheHeadsThatTheyName) {
  ImportedScores published = {"wu", std::string(64, '9'), {}};
  for (int64_t layer = 0; layer < 2; ++layer) {
    for (int64_t head = 0; head < 3; ++head) {
      published.heads.push_back({layer, head, 0.1 + 0.2 * static_cast<double>(head), 3});
    }
  }
  published.heads.push_back({7, 0, 0.9, 3});  // of another model
  FakeReadings readings;
  AddRows(Rising, readings);
  v1::ExperimentSpec spec = Resolved(Lone(std::string(kListed) + "permutations: 50")).resolved;
  *spec.mutable_utility_test()->mutable_heads() =
      FromText<v1::HeadSet>(absl::StrCat("imported { name: 'wu@", published.sha256, "' threshold: 0.5 }"));
  spec.mutable_utility_test()->add_thresholds(0.3);
  published.heads.pop_back();  // a set with heads outside the model is refused at submit
  Context context = ContextOf({ToyModel()});
  context.scores.push_back(published);
  const auto results = FindKind("utility_test")->experiment->Reduce(spec, context, readings);
  ASSERT_TRUE(results.ok()) << results.status();
  const Rows rows = RowsOf(*results);
  EXPECT_DOUBLE_EQ(*rows.at({"retrieval", "toy", "imported", 0.5, 42}).value, 2);
  EXPECT_DOUBLE_EQ(*rows.at({"retrieval", "toy", "imported", 0.3, 42}).value, 4);
  const Row correlation = rows.at({"partial_spearman", "toy", "imported", -1, 42});
  EXPECT_EQ(*correlation.n, 6);
  EXPECT_DOUBLE_EQ(*correlation.value, 1);
}

}  // namespace
}  // namespace ropelab::experiments
