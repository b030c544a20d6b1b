// Stages of text lengths until the prompts are found. Orders by numpy, as docs/random-numbers.md writes it.
#include "common/service/canonical_hash.h"
#include "fakes.h"
#include "server/experiments/corpus_stages.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CorpusOrder, IsTheShuffleThatNumpyDraws) {
  EXPECT_THAT(CorpusOrder(42, 10), ElementsAre(5, 2, 6, 8, 3, 4, 0, 9, 1, 7));
  EXPECT_THAT(CorpusOrder(7, 10), ElementsAre(2, 4, 6, 8, 1, 3, 9, 7, 0, 5));
  EXPECT_THAT(CorpusOrder(7, 1), ElementsAre(0));
}

ResolvedExperiment Detect(const std::string& fields, const FakeCatalogue& world, const std::string& common) {
  return Resolved("name: 'x' " + common + " slash_detection { prompts { corpus { name: 'books' tokens: 64 " +
                      fields + " } } threshold: 0.9 }",
                  world);
}

std::vector<int64_t> DocumentsOf(const PlannedTask& task) {
  const auto& documents = task.measurement.text_lengths().documents();
  return {documents.begin(), documents.end()};
}

// Plans stage after stage and answers each with the lengths that `tokens` gives.
class Rehearsal {
 public:
  using Tokens = std::function<int64_t(const std::string& tokenizer, int64_t document)>;
  Rehearsal(ResolvedExperiment experiment, Context context, Tokens tokens)
      : experiment_(std::move(experiment)), context_(std::move(context)), tokens_(std::move(tokens)) {}

  absl::StatusOr<std::optional<StagePlan>> Next() {
    ++stage_;
    auto plan =
        FindKind("slash_detection")->experiment->Plan(experiment_.resolved, context_, stage_, readings_);
    if (plan.ok() && plan->has_value()) {
      for (const PlannedTask& task : **plan) {
        readings_.Add(stage_, task.measurement, {Answer(task.measurement)});
      }
    }
    return plan;
  }
  StagePlan Must() {
    auto plan = Next();
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() && plan->has_value() ? **plan : StagePlan();
  }
  StagePlan Again(int64_t stage) { return PlanOf(experiment_, context_, stage, readings_); }

 private:
  v1::Reading Answer(const v1::Measurement& measurement) const {
    v1::Reading reading;
    for (const int64_t document : measurement.text_lengths().documents()) {
      reading.mutable_document_lengths()->add_documents(document);
      reading.mutable_document_lengths()->add_tokens(tokens_(measurement.model().tokenizer_hash(), document));
      reading.mutable_document_lengths()->add_characters(1);
    }
    return reading;
  }

  ResolvedExperiment experiment_;
  Context context_;
  Tokens tokens_;
  FakeReadings readings_;
  int64_t stage_ = 0;
};

std::string TokenizerOf(char c) {
  return std::string(64, c);
}

Rehearsal Alone(const std::string& fields, Rehearsal::Tokens tokens,
                const std::string& common = "model: 'toy'") {
  const FakeCatalogue world({ReadingModel()}, {Books()});
  return Rehearsal(Detect(fields, world, common), ContextOf(world.Models(), world.Corpora()),
                   std::move(tokens));
}

TEST(CorpusPlan, TheFirstStageAsksForAsManyDocumentsAsPromptsAreNeeded) {
  Rehearsal run = Alone("count: 3", [](auto&, int64_t) { return 100; });
  const StagePlan plan = run.Must();
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_THAT(DocumentsOf(plan[0]), ElementsAre(5, 2, 6));
  EXPECT_EQ(plan[0].model, "toy");
  const v1::Measurement& measurement = plan[0].measurement;
  EXPECT_EQ(measurement.text_lengths().corpus(), std::string(64, 'e'));
  EXPECT_EQ(measurement.text_lengths().text_field(), "text");
  EXPECT_EQ(measurement.model().tokenizer_hash(), TokenizerOf('d'));
  EXPECT_TRUE(measurement.model().weights_hash().empty() && measurement.model().config_hash().empty());
  EXPECT_FALSE(measurement.model().has_dtype());
}

TEST(CorpusPlan, ThenThePromptsAreMeasured) {
  Rehearsal run = Alone("count: 3", [](auto&, int64_t) { return 63; });  // BOS makes it 64
  run.Must();
  const StagePlan plan = run.Must();
  ASSERT_EQ(plan.size(), 1u);
  const v1::PromptBlock& prompts = plan[0].measurement.slash_profile().prompts();
  EXPECT_EQ(prompts.samples().count(), 3);
  EXPECT_THAT(prompts.corpus().documents(), ElementsAre(5, 2, 6));
  EXPECT_EQ(prompts.corpus().corpus(), std::string(64, 'e'));
  EXPECT_EQ(prompts.corpus().text_field(), "text");
  EXPECT_EQ(prompts.corpus().tokens(), 64);
  EXPECT_EQ(prompts.corpus().bos_token_id(), 1);
  EXPECT_EQ(plan[0].measurement.model().weights_hash(), std::string(64, 'a'));
  const auto last = run.Next();
  ASSERT_TRUE(last.ok());
  EXPECT_FALSE(last->has_value());
}

TEST(CorpusPlan, WithoutBosOneMoreTokenIsNeeded) {
  Rehearsal run = Alone("count: 3 bos: NEVER", [](auto&, int64_t) { return 63; });
  run.Must();
  EXPECT_TRUE(run.Must()[0].measurement.has_text_lengths());
}

// Order of seed 42 over ten documents: 5, 2, 6, 8, 3, 4, 0, 9, 1, 7.
TEST(CorpusPlan, ShortDocumentsAreSkippedAndTwiceAsManyAskedFor) {
  const int64_t order[] = {5, 2, 6, 8, 3, 4, 0, 9, 1, 7};
  // Only positions 2, 4 and 7 are long enough.
  Rehearsal run = Alone("count: 3", [&](auto&, int64_t document) {
    return document == order[2] || document == order[4] || document == order[7] ? 63 : 62;
  });
  run.Must();
  const StagePlan second = run.Must(), third = run.Must(), profiles = run.Must();
  EXPECT_THAT(DocumentsOf(second.at(0)), ElementsAre(order[3], order[4], order[5]));
  EXPECT_THAT(DocumentsOf(third.at(0)), ElementsAre(order[6], order[7], order[8], order[9]));
  EXPECT_THAT(profiles.at(0).measurement.slash_profile().prompts().corpus().documents(),
              ElementsAre(order[2], order[4], order[7]));
  // Planned again, all as before.
  EXPECT_EQ(CanonicalHash(run.Again(2).at(0).measurement), CanonicalHash(second[0].measurement));
  EXPECT_EQ(CanonicalHash(run.Again(3).at(0).measurement), CanonicalHash(third[0].measurement));
  EXPECT_EQ(CanonicalHash(run.Again(4).at(0).measurement), CanonicalHash(profiles[0].measurement));
}

TEST(CorpusPlan, TooFewLongDocumentsIsAnErrorWithBothCounts) {
  Rehearsal run = Alone("count: 3", [](auto&, int64_t document) { return document < 2 ? 63 : 10; });
  run.Must();
  run.Must();
  run.Must();
  const auto plan = run.Next();
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      std::string(plan.status().message()),
      "corpus books: 2 of its 10 documents have the 63 tokens that a prompt of 64 (BOS included) takes "
      "with the tokenizer of model toy, and 3 are needed; 8 were skipped as too short; ask for fewer or "
      "shorter prompts, or register a corpus of longer documents");
}

TEST(CorpusPlan, ModelsWithOneTokenizerShareTheLengths) {
  ModelFacts twin = ReadingModel("twin"), other = ReadingModel("other", 'f');
  twin.weights_hash = std::string(64, '1');
  other.weights_hash = std::string(64, '2');
  const FakeCatalogue world({ReadingModel(), twin, other}, {Books()});
  Rehearsal run(Detect("count: 3", world, "models: ['toy', 'twin', 'other'] seeds: [42, 7]"),
                ContextOf(world.Models(), world.Corpora()),
                [](const std::string& tokenizer, int64_t document) {
                  // For the other tokenizer document 2, the first of seed 7, is too short.
                  return tokenizer == TokenizerOf('f') && document == 2 ? 5 : 63;
                });
  const StagePlan first = run.Must();
  ASSERT_EQ(first.size(), 4u);  // two tokenizers, two seeds
  EXPECT_EQ(first[0].model, "toy");
  EXPECT_EQ(first[1].model, "other");
  const StagePlan second = run.Must();
  ASSERT_EQ(second.size(), 2u);  // document 2 is among the first three of either seed
  EXPECT_EQ(second[0].model, "other");
  EXPECT_EQ(second[1].model, "other");
  const StagePlan profiles = run.Must();
  ASSERT_EQ(profiles.size(), 6u);  // model by model, seed by seed
  const auto documents = [&](size_t task) {
    return profiles[task].measurement.slash_profile().prompts().corpus().documents();
  };
  EXPECT_THAT(documents(3), testing::ElementsAreArray(documents(1)));
  EXPECT_THAT(documents(4), ElementsAre(5, 6, 8));
  EXPECT_THAT(documents(5), ElementsAre(4, 6, 8));
}

TEST(CorpusPlan, ManyDocumentsAreCutIntoTasksOfSixtyFour) {
  CorpusFacts corpus = Books();
  corpus.documents = 200;
  const FakeCatalogue world({ReadingModel()}, {corpus});
  const StagePlan plan =
      PlanOf(Detect("count: 130", world, "model: 'toy'"), ContextOf(world.Models(), world.Corpora()), 1,
             *std::make_unique<FakeReadings>());
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(DocumentsOf(plan[0]).size(), 64u);
  EXPECT_EQ(DocumentsOf(plan[2]).size(), 2u);
}

TEST(CorpusPlan, ACorpusThatIsGoneIsNamed) {
  const FakeCatalogue world({ReadingModel()}, {Books()});
  FakeReadings none;
  const auto plan = FindKind("slash_detection")
                        ->experiment->Plan(Detect("count: 3", world, "model: 'toy'").resolved,
                                           ContextOf(world.Models()), 1, none);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("corpus books@eeee"));
}

TEST(GeneratedPlan, IsOneStageOfBlocks) {
  const FakeCatalogue world({ReadingModel()});
  FakeReadings none;
  const StagePlan plan = PlanOf(
      Resolved(
          "name: 'x' model: 'toy' seeds: [5] slash_detection { prompts { generated { count: 9 tokens: 64 } } "
          "threshold: 0.9 }",
          world),
      ContextOf(world.Models()), 1, none);
  ASSERT_EQ(plan.size(), 2u);
  const v1::PromptBlock& block = plan[1].measurement.slash_profile().prompts();
  EXPECT_EQ(block.samples().first_sample(), 8);
  EXPECT_EQ(block.generated().seed(), 5u);
  EXPECT_EQ(block.generated().tokens(), 64);
  EXPECT_EQ(block.generated().bos_token_id(), 1);
}

}  // namespace
}  // namespace ropelab::experiments
