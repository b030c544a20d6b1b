// Sets of heads that a retrieval detection found, and those of registered scores.
#include "fakes.h"
#include "server/experiments/detection.h"
#include "server/experiments/head_set.h"
#include "server/experiments/head_set_imported.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NamedHead Head(int64_t layer, int64_t head) {
  return {layer, head, std::nullopt};
}

// Readings of four heads in two layers: per sample what each head's metrics are.
void AddSample(int64_t index, const std::vector<double>& argmax, const std::vector<double>& mass,
               const std::vector<double>& copy, DetectionScores& scores) {
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
  heads.mutable_argmax()->Add(argmax.begin(), argmax.end());
  heads.mutable_mass()->Add(mass.begin(), mass.end());
  heads.mutable_copy_wu()->Add(copy.begin(), copy.end());
  const absl::Status status = scores.Add(measurement, reading);
  EXPECT_TRUE(status.ok()) << status;
}

// Over two samples: hits 2 0 1 1, mass 0.3 0.2 0.05 0.15, copy 0.1 0.5 0 0.5; argmax set at 0.6: L0H0.
Context Detected(double threshold = 0.6) {
  const auto detection = FromText<v1::RetrievalDetection>(
      "needles { context_lengths: 64 depths: 0.5 } metrics: [ARGMAX, MASS, COPY_WU]");
  v1::ModelConfig config;
  config.set_layers(2);
  config.set_query_heads(2);
  DetectionScores scores(detection, config);
  AddSample(0, {1, 0, 1, 0}, {0.2, 0.2, 0.05, 0.1}, {0.1, 0.5, 0, 0.4}, scores);
  AddSample(1, {1, 0, 0, 1}, {0.4, 0.2, 0.05, 0.2}, {0.1, 0.5, 0, 0.6}, scores);
  HeadScoresTable table("0123456789abcdef");
  table.Add({"toy", v1::Dtype::FLOAT32, std::nullopt, 42}, scores, threshold);
  Context context = ContextOf({ToyModel()});
  context.earlier.push_back({"detect", "digest", {table.Finish().slice}});
  return context;
}

std::vector<NamedHead> ScoredHeads(const std::string& set, const Context& context = Detected()) {
  const auto heads = HeadsOf(FromText<v1::HeadSet>(set), context, "toy", 42);
  EXPECT_TRUE(heads.ok()) << heads.status();
  return heads.ok() ? *heads : std::vector<NamedHead>();
}

TEST(RetrievalSet, IsWhatTheDetectionLabelled) {
  EXPECT_THAT(ScoredHeads("retrieval { experiment: 'detect' metric: ARGMAX }"), ElementsAre(Head(0, 0)));
  EXPECT_THAT(ScoredHeads("retrieval { experiment: 'detect' metric: MASS }"), IsEmpty());
  EXPECT_THAT(ScoredHeads("retrieval { experiment: 'detect' metric: MASS }", Detected(0.2)),
              ElementsAre(Head(0, 0), Head(0, 1)));
  // As many as the argmax set has, by score; of the tie 0.5 the one with more mass.
  EXPECT_THAT(ScoredHeads("retrieval { experiment: 'detect' metric: COPY_WU }"), ElementsAre(Head(0, 1)));
}

TEST(RetrievalSet, AThresholdLabelsAnewFromHits) {
  EXPECT_THAT(ScoredHeads("retrieval { experiment: 'detect' metric: ARGMAX threshold: 0.5 }"),
              ElementsAre(Head(0, 0), Head(1, 0), Head(1, 1)));
  EXPECT_THAT(ScoredHeads("retrieval { experiment: 'detect' metric: MASS threshold: 0.15 }"),
              ElementsAre(Head(0, 0), Head(0, 1), Head(1, 1)));
  EXPECT_THAT(ScoredHeads("retrieval { experiment: 'detect' metric: COPY_WU threshold: 0.5 }"),
              ElementsAre(Head(0, 0), Head(0, 1), Head(1, 1)));
}

TEST(RetrievalSet, TopAndShareTakeTheBestOfTheLabelledOnes) {
  const Context low = Detected(0.5);  // L0H0 with 2 hits; L1H0 and L1H1 with 1, L1H1 with more mass
  EXPECT_THAT(ScoredHeads("retrieval { experiment: 'detect' metric: ARGMAX top: 2 }", low),
              ElementsAre(Head(0, 0), Head(1, 1)));
  EXPECT_EQ(ScoredHeads("retrieval { experiment: 'detect' metric: ARGMAX top: 9 }", low).size(), 3u);
  EXPECT_THAT(ScoredHeads("retrieval { experiment: 'detect' metric: ARGMAX top_share: 0.34 }", low),
              ElementsAre(Head(0, 0), Head(1, 1)));
}

TEST(RetrievalSet, ControlsKeepAwayFromAllThatWasFound) {
  const auto detected =
      DetectedHeadsOf(FromText<v1::HeadSet>("retrieval { experiment: 'detect' metric: ARGMAX top: 1 }"),
                      Detected(0.5), "toy", 42);
  ASSERT_TRUE(detected.ok()) << detected.status();
  EXPECT_THAT(*detected, ElementsAre(Head(0, 0), Head(1, 0), Head(1, 1)));
}

TEST(RetrievalSet, WithoutScoresThereIsNoAnswer) {
  const auto set = FromText<v1::HeadSet>("retrieval { experiment: 'detect' metric: COPY_PAPER }");
  EXPECT_THAT(HeadsOf(set, Detected(), "toy", 42).status().message(), HasSubstr("no scores of copy_paper"));
  EXPECT_EQ(HeadsOf(set, Detected(), "toy", 7).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(HeadsOf(set, ContextOf({ToyModel()}), "toy", 42).status().code(), absl::StatusCode::kInternal);
}

constexpr char kSomePrompts[] = "prompts { uniform_tokens { count: 8 tokens: 64 } } ";
constexpr char kNeedles[] =
    "needles { context_lengths: 64 depths: 0.5 samples_per_cell: 2 haystack { generated {} } } ";

std::string Mapping(const std::string& heads) {
  return absl::StrCat("experiments { name: 'maps' slash_detection { ", kSomePrompts, " maps { heads { ",
                      heads, " } } } } ");
}
std::vector<std::string> ScoredStudyProblems(const std::string& experiments,
                                             std::vector<ImportedScores> scores = {}) {
  return ProblemsOf(StudyOf("name: 's' model: 'toy' " + experiments),
                    FakeCatalogue({ReadingModel()}, {}, std::move(scores)));
}

TEST(RetrievalSet, ItsExperimentMustBeADetectionThatMeasuresTheMetric) {
  const std::string detect =
      absl::StrCat("experiments { name: 'detect' retrieval_detection { ", kNeedles, " } } ");
  const std::string field = "experiments.maps.slash_detection.maps.heads.retrieval.";
  EXPECT_THAT(ScoredStudyProblems(detect + Mapping("retrieval { experiment: 'detect' }")), IsEmpty());
  EXPECT_THAT(ScoredStudyProblems(detect + Mapping("retrieval { experiment: 'detect' metric: COPY_WU }")),
              ElementsAre(field + "metric: is not measured by detect, which has ARGMAX, MASS; add it to its "
                                  "metrics, or name one of these"));
  EXPECT_THAT(
      ScoredStudyProblems(absl::StrCat("experiments { name: 'detect' slash_detection { ", kSomePrompts,
                                       " } } ", Mapping("retrieval { experiment: 'detect' }"))),
      ElementsAre(field + "experiment: is a slash_detection, which finds no retrieval heads; name a "
                          "retrieval_detection"));
  EXPECT_THAT(ScoredStudyProblems(detect + Mapping("slash_dominant { experiment: 'detect' }")),
              ElementsAre(HasSubstr("is a retrieval_detection, which finds no slash-dominant heads")));
  EXPECT_THAT(ScoredStudyProblems(detect + Mapping("retrieval { experiment: 'detect' threshold: 0 }")),
              ElementsAre(field + "threshold: a threshold is above 0 and at most 1"));
  EXPECT_THAT(ScoredStudyProblems(detect + Mapping("retrieval { experiment: 'detect' top: 0 }")),
              ElementsAre(field + "top: at least 1 head"));
  EXPECT_THAT(ScoredStudyProblems(detect + Mapping("retrieval { experiment: 'detect' top_share: 1.5 }")),
              ElementsAre(HasSubstr("a share is above 0 and at most 1")));
  EXPECT_THAT(ScoredStudyProblems(detect + Mapping("retrieval { }")),
              ElementsAre(HasSubstr("name the retrieval detection")));
}

ImportedScores Published(const std::string& name = "published", char hash = 'c') {
  ImportedScores scores;
  scores.name = name;
  scores.sha256 = std::string(64, hash);
  scores.heads = {{0, 0, 0.05, 10}, {0, 1, 0.7, 10}, {1, 0, 0.1, 10}, {1, 3, 0.7, 10}};
  return scores;
}

std::vector<NamedHead> ImportedHeads(const std::string& choice) {
  Context context = ContextOf({ToyModel()});
  context.scores = {Published("published", 'b'), Published()};
  return ScoredHeads(absl::StrCat("imported { name: 'published@", std::string(64, 'c'), "' ", choice, " }"),
                     context);
}

TEST(ImportedSet, IsCutByThresholdByTopOrByShare) {
  EXPECT_THAT(ImportedHeads("threshold: 0.1"), ElementsAre(Head(0, 1), Head(1, 0), Head(1, 3)));
  EXPECT_THAT(ImportedHeads("top: 1"), ElementsAre(Head(0, 1)));
  EXPECT_THAT(ImportedHeads("top: 4"), ElementsAre(Head(0, 0), Head(0, 1), Head(1, 0), Head(1, 3)));
  EXPECT_THAT(ImportedHeads("top_share: 0.5"), ElementsAre(Head(0, 1), Head(1, 3)));
}

TEST(ImportedSet, ControlsKeepAwayFromAllAtATenth) {
  Context context = ContextOf({ToyModel()});
  context.scores = {Published()};
  const auto detected = DetectedHeadsOf(
      FromText<v1::HeadSet>(absl::StrCat("imported { name: 'published@", std::string(64, 'c'), "' top: 1 }")),
      context, "toy", 42);
  ASSERT_TRUE(detected.ok()) << detected.status();
  EXPECT_THAT(*detected, ElementsAre(Head(0, 1), Head(1, 0), Head(1, 3)));
}

TEST(ImportedSet, ScoresThatAreGoneAreSaid) {
  const auto set = FromText<v1::HeadSet>("imported { name: 'published@00' threshold: 0.1 }");
  const absl::Status status = HeadsOf(set, ContextOf({ToyModel()}), "toy", 42).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("published@00 are not registered any more"));
}

TEST(ImportedSet, TheResolvedSpecNamesTheContent) {
  const ResolvedExperiment experiment =
      Resolved(absl::StrCat("name: 'x' model: 'toy' slash_detection { ", kSomePrompts,
                            " maps { heads { imported { name: 'published' } } } }"),
               FakeCatalogue({ToyModel()}, {}, {Published()}));
  const v1::ImportedHeads& set = experiment.resolved.slash_detection().maps().heads().imported();
  EXPECT_EQ(set.name(), "published@" + std::string(64, 'c'));
  EXPECT_EQ(set.threshold(), 0.1);
}

TEST(ImportedSet, WhatIsWrongIsRefusedAtSubmit) {
  const auto problems = [](const std::string& set, std::vector<ImportedScores> scores) {
    return ScoredStudyProblems(Mapping("imported { " + set + " }"), std::move(scores));
  };
  EXPECT_THAT(problems("name: 'published' top: 2", {Published()}), IsEmpty());
  EXPECT_THAT(problems("name: 'published@cccccccc' top: 2", {Published(), Published("published", 'b')}),
              IsEmpty());
  EXPECT_THAT(problems("name: 'published'", {Published(), Published("published", 'b')}),
              ElementsAre(HasSubstr("imported.name: the name stands for several contents; say which, the "
                                    "newest first: published@cccccccccccccccc (4 heads)")));
  EXPECT_THAT(problems("name: 'published@abc'", {Published()}), ElementsAre(HasSubstr("at least 8")));
  EXPECT_THAT(problems("name: 'published@dddddddd'", {Published()}),
              ElementsAre(HasSubstr("no content of this name has such a hash")));
  EXPECT_THAT(problems("name: 'other'", {Published()}),
              ElementsAre(HasSubstr("no head scores of this name are registered; known: published")));
  EXPECT_THAT(problems("", {Published()}), ElementsAre(HasSubstr("name the scores: known: published")));
  EXPECT_THAT(problems("name: 'x'", {}), ElementsAre(HasSubstr("no head scores are registered yet")));
  EXPECT_THAT(problems("name: 'published' top: 5", {Published()}),
              ElementsAre(HasSubstr("imported.top: these scores are of 4 heads")));
  EXPECT_THAT(problems("name: 'published' threshold: 0.8", {Published()}),
              ElementsAre(HasSubstr("imported.threshold: no head has a mean score of 0.8 or more; the best "
                                    "has 0.7: say a lower threshold, or top")));
  ImportedScores large = Published();
  large.heads.push_back({2, 0, 0.5, 1});
  EXPECT_THAT(problems("name: 'published' top: 1", {large}),
              ElementsAre(HasSubstr("imported.name: scores L2H0, and model toy has layers 0 to 1 of heads 0 "
                                    "to 3; name the scores of this model")));
}

}  // namespace
}  // namespace ropelab::experiments
