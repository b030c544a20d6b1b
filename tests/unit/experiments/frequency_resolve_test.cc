#include "fakes.h"
#include "server/experiments/frequency_analysis.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char kNear[] = "list { head { layer: 1 head: 3 offset: 7 } head { layer: 0 head: 2 offset: 0 } }";

std::string FrequencySpec(const std::string& fields, const std::string& heads = kNear,
                          const std::string& prompts = "uniform_tokens { count: 12 tokens: 128 }") {
  return "name: 'x' model: 'toy' frequency_analysis { heads { " + heads + " } prompts { " + prompts + " } " +
         fields + " }";
}

v1::FrequencyAnalysis ResolvedAnalysis(const std::string& spec) {
  return Resolved(spec).resolved.frequency_analysis();
}

TEST(FrequencyResolve, WritesTheDefaultsOut) {
  const v1::FrequencyAnalysis analysis = ResolvedAnalysis(FrequencySpec("removals { bands: true }"));
  EXPECT_EQ(analysis.active_average(), v1::ActiveAverage::AT_LAG);
  EXPECT_EQ(analysis.removals(0).per_band(), v1::PerBand::SIX);
  EXPECT_TRUE(analysis.removals(0).has_each_pair());
  EXPECT_THAT(analysis.rows(), ElementsAre(100));
  EXPECT_FALSE(analysis.has_assumption_length());
}

TEST(FrequencyResolve, TheDefaultRowLiesFarBackOnceAnOffsetDoes) {
  const std::string far = "list { head { layer: 1 head: 3 offset: 10 } head { layer: 0 head: 2 offset: 0 } }";
  EXPECT_THAT(ResolvedAnalysis(FrequencySpec("", far)).rows(), ElementsAre(5 * 128 / 6));
  const std::string prompts = "uniform_tokens { count: 3 tokens: 60 }";
  EXPECT_THAT(ResolvedAnalysis(FrequencySpec("", kNear, prompts)).rows(), ElementsAre(60))
      << "no row 100 here";
}

TEST(FrequencyResolve, ThePairsAndRowsAreSetsAndSoResolveAlike) {
  const v1::FrequencyAnalysis one =
      ResolvedAnalysis(FrequencySpec("removals { pairs: [5, 1, 3] } rows: [60, 40]"));
  const v1::FrequencyAnalysis other =
      ResolvedAnalysis(FrequencySpec("removals { pairs: [1, 3, 5] } rows: [40, 60]"));
  EXPECT_EQ(one.SerializeAsString(), other.SerializeAsString());
  EXPECT_THAT(one.removals(0).pairs(), ElementsAre(1, 3, 5));
  EXPECT_THAT(one.rows(), ElementsAre(40, 60));
}

TEST(FrequencyResolve, WhichRowADetectionsHeadsTakeIsKnownWhenTheyAre) {
  const v1::Submission study = StudyOf(
      "name: 's' model: 'toy' experiments { name: 'detect' slash_detection { prompts { uniform_tokens { "
      "count: 9 tokens: 128 } } } } experiments { name: 'why' frequency_analysis { heads { slash_dominant { "
      "experiment: 'detect' } } prompts { uniform_tokens { count: 9 tokens: 128 } } } }");
  Problems problems;
  const ResolvedSubmission resolved = ResolveSubmission(study, FakeCatalogue(), problems);
  ASSERT_TRUE(problems.empty()) << problems.problems()[0].field() << problems.problems()[0].remedy();
  EXPECT_EQ(resolved.experiments[1].resolved.frequency_analysis().rows_size(), 0);
}

TEST(FrequencyResolve, APerBandWithoutBandsChangesNothingAndSaysSo) {
  const ResolvedExperiment experiment = Resolved(FrequencySpec("removals { pairs: [1] per_band: SIX }"));
  EXPECT_FALSE(experiment.resolved.frequency_analysis().removals(0).has_per_band());
  EXPECT_THAT(experiment.warnings,
              ElementsAre(HasSubstr("frequency_analysis.removals[0].per_band SIX changes nothing")));
}

TEST(FrequencyResolve, HeadsWithoutOffsetsNeedAnotherAverageAndNoRemoval) {
  const std::string bare = "list { head { layer: 0 head: 1 } }";
  EXPECT_THAT(
      ProblemsOf(FrequencySpec("", bare)),
      ElementsAre(HasSubstr("frequency_analysis.heads.list.head[0].offset: active_average AT_LAG is")));
  EXPECT_THAT(ProblemsOf(FrequencySpec("active_average: ABS removals { each_pair: true }", bare)),
              ElementsAre(HasSubstr("frequency_analysis.heads.list.head[0].offset: a removal's score")));
  EXPECT_THAT(ProblemsOf(FrequencySpec("active_average: ALL_PAIRS", bare)), ElementsAre());
  EXPECT_THAT(ResolvedAnalysis(FrequencySpec("active_average: ABS", bare)).rows(), ElementsAre(100));
}

TEST(FrequencyResolve, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> wrongs = {
      {"removals {}", "removals[0]: says nothing to remove"},
      {"removals { each_pair: false }", "removals[0]: says nothing to remove"},
      {"removals { pairs: [9] }", "removals[0].pairs: a head of model toy has pairs 1 to 8"},
      {"removals { pairs: [0] }", "removals[0].pairs: a head of model toy has pairs 1 to 8"},
      {"removals { pairs: [3, 1, 3] }", "removals[0].pairs: is named twice"},
      {"removals { pairs: [1, 2] } removals { pairs: [2, 1] }", "removals[1].pairs: stands in another"},
      {"removals { bands: true } removals { bands: true }", "removals[1].bands: stands in another"},
      {"removals { each_pair: true } removals { each_pair: true }", "removals[1].each_pair: stands in"},
      {"rows: 0", "rows: rows count from 1, and these prompts have 1 to 128"},
      {"rows: 129", "rows: rows count from 1, and these prompts have 1 to 128"},
      {"rows: [7, 7]", "rows: is named twice"},
      {"assumption_length: -0.5", "assumption_length: Assumption 5.1 takes a constant L of 0 or more"},
  };
  for (const auto& [fields, said] : wrongs) {
    EXPECT_THAT(ProblemsOf(FrequencySpec(fields)), ElementsAre(HasSubstr("frequency_analysis." + said)))
        << fields;
  }
  EXPECT_THAT(
      ProblemsOf(FrequencySpec("", "list { head { layer: 0 head: 1 offset: 124 } }")),
      ElementsAre(HasSubstr("a prompt of 128 tokens has no entry so far back once the first 4 positions "
                            "are left out: its offsets are 0 to 123")));
  EXPECT_THAT(ProblemsOf(FrequencySpec("", "list { head { layer: 0 head: 1 offset: 123 } }")), ElementsAre());
}

TEST(FrequencyResolve, HeatMapsHaveABound) {
  ModelFacts wide = ToyModel();
  wide.config.set_max_positions(200000);
  wide.config.set_head_dim(2048);
  const std::string prompts = "uniform_tokens { count: 1 tokens: 131072 }";
  EXPECT_THAT(
      ProblemsOf(FrequencySpec("rows: 100000", kNear, prompts), FakeCatalogue({wide})),
      ElementsAre(HasSubstr("frequency_analysis.rows: the heat maps of 2 heads of model toy take 1562 MiB; "
                            "at most 512 MiB")));
  EXPECT_THAT(ProblemsOf(FrequencySpec("rows: 130001", kNear, prompts), FakeCatalogue({wide})),
              ElementsAre(HasSubstr("these prompts have 1 to 130000")));
}

TEST(FrequencyResolve, CountsItsTasks) {
  EXPECT_EQ(Resolved(FrequencySpec("")).estimate.tasks(), 2 * 2);
  EXPECT_EQ(Resolved(FrequencySpec("removals { bands: true }")).estimate.tasks(), 3 * 2);
  const ResolvedExperiment sampled = Resolved(FrequencySpec("", kNear, "sampled { count: 12 tokens: 128 }"));
  EXPECT_EQ(sampled.estimate.tasks(), 3 * 2);
  EXPECT_GT(sampled.estimate.device_seconds(), 0);
  EXPECT_GT(sampled.estimate.reading_bytes(), 2 * 2 * 8 * 100 * 8) << "two heads' heat maps of two blocks";
}

}  // namespace
}  // namespace ropelab::experiments
