// Which needle samples are kept, in which blocks, and after which stage.
#include "fakes.h"
#include "server/experiments/needles.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::Needles Needles(const std::string& fields = "samples_per_cell: 5") {
  v1::Needles needles = FromText<v1::Needles>(
      "context_lengths: [64, 128] depths: [0.25, 0.5] haystack { generated {} } " + fields);
  Problems problems;
  ResolveNeedles(needles, "needles", NeedleDefaults(),
                 FromText<v1::ExperimentSpec>("models: 'toy' seeds: 42"), Facts{{ReadingModel()}, {Books()}},
                 problems);
  EXPECT_TRUE(problems.empty());
  return needles;
}

// Answers a stage: a sample fits as `fits` says.
void Answer(const StagePlan& plan, int64_t stage, FakeReadings& readings,
            const std::function<bool(const PlannedTask&, const v1::NeedleSample&)>& fits) {
  for (const PlannedTask& task : plan) {
    const v1::PromptBlock& block = task.measurement.text_lengths().needles();
    std::vector<v1::Reading> given;
    for (int i = 0; i < block.needle().samples_size(); ++i) {
      v1::RealisedNeedle& realised = *given.emplace_back().mutable_realised_needle();
      realised.set_sample(block.samples().first_sample() + i);
      realised.set_fits(fits(task, block.needle().samples(i)));
    }
    readings.Add(stage, task.measurement, std::move(given));
  }
}

absl::StatusOr<FoundNeedles> Find(const v1::Needles& needles, const std::vector<ModelFacts>& models,
                                  int64_t stage, StageReadings& readings, int64_t first_stage = 1) {
  return FindNeedles(needles, v1::NeedlePrompts::DETECTION, {42, 7}, models, ContextOf(models, {Books()}),
                     stage, readings, first_stage);
}

TEST(FindNeedles, OneTokenizerKeepsAllAndNeedsNoStage) {
  FakeReadings none;
  const auto found = Find(Needles(), {ReadingModel("a"), ReadingModel("b")}, 1, none);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->before.empty());
  EXPECT_EQ(found->stages, 0);
  ASSERT_EQ(found->seeds.size(), 2u);
  EXPECT_EQ(found->seeds[0].kept.size(), 20u);
  EXPECT_TRUE(found->seeds[1].dropped.empty());
  ASSERT_EQ(found->Blocks(1), 3);
  const v1::PromptBlock last = found->Block(ReadingModel(), 1, 2);
  EXPECT_EQ(last.samples().first_sample(), 16);
  EXPECT_EQ(last.samples().count(), 4);
  EXPECT_EQ(last.needle().seed(), 7u);
  EXPECT_EQ(last.needle().use(), v1::NeedlePrompts::DETECTION);
  EXPECT_EQ(last.needle().bos_token_id(), 1);
  EXPECT_EQ(last.needle().corpus(), "");
  EXPECT_EQ(last.needle().code_length(), 5);
  const auto sample = NeedleSampleOf(last, 19);
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->context_length(), 128);
  EXPECT_EQ(sample->depth(), 0.5);
  EXPECT_EQ(sample->index(), 4);
  EXPECT_THAT(std::string(NeedleSampleOf(last, 20).status().message()), HasSubstr("needle sample 20"));
}

TEST(FindNeedles, SeveralTokenizersKeepWhatFitsEveryModel) {
  const std::vector<ModelFacts> models = {ReadingModel("a", 'd'), ReadingModel("b", 'e'),
                                          ReadingModel("c", 'd')};
  FakeReadings readings;
  const auto asked = Find(Needles(), models, 1, readings);
  ASSERT_TRUE(asked.ok()) << asked.status();
  ASSERT_EQ(asked->before.size(), 2u * 2 * 3);  // tokenizers, seeds, blocks of 20 samples
  EXPECT_EQ(asked->before[0].measurement.model().tokenizer_hash(), std::string(64, 'd'));
  EXPECT_EQ(asked->before[0].measurement.model().weights_hash(), "");
  Answer(asked->before, 1, readings, [](const PlannedTask& task, const v1::NeedleSample& sample) {
    const bool first = task.model == "a";
    return sample.context_length() == 128 || (first ? sample.index() != 1 : sample.index() != 3);
  });
  const auto found = Find(Needles(), models, 2, readings);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->before.empty());
  EXPECT_EQ(found->stages, 1);
  for (const NeedleChoice& choice : found->seeds) {
    ASSERT_EQ(choice.kept.size(), 16u);
    ASSERT_EQ(choice.dropped.size(), 4u);
    std::vector<int64_t> kept, dropped;
    for (int i = 0; i < 3; ++i) {
      kept.push_back(choice.kept[static_cast<size_t>(i)].index());
    }
    for (const v1::NeedleSample& sample : choice.dropped) {
      EXPECT_EQ(sample.context_length(), 64);
      dropped.push_back(sample.index());
    }
    EXPECT_THAT(kept, ElementsAre(0, 2, 4));
    EXPECT_THAT(dropped, ElementsAre(1, 3, 1, 3));
  }
  EXPECT_EQ(found->Blocks(0), 2);
  EXPECT_EQ(found->Block(models[2], 0, 0).needle().samples(3).depth(), 0.5);
}

TEST(FindNeedles, TheStageMayComeLaterAndHoldOtherTasks) {
  const std::vector<ModelFacts> models = {ReadingModel("a", 'd'), ReadingModel("b", 'e')};
  FakeReadings readings;
  const auto asked = Find(Needles(), models, 3, readings, 3);
  ASSERT_TRUE(asked.ok() && !asked->before.empty());
  v1::Measurement other;
  other.mutable_sampling()->set_tokens(4);
  readings.Add(3, other, {v1::Reading()});
  Answer(asked->before, 3, readings, [](const PlannedTask&, const v1::NeedleSample&) { return true; });
  const auto found = Find(Needles(), models, 4, readings, 3);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->seeds[1].kept.size(), 20u);
}

TEST(FindNeedles, ATokenizerThatAddsBosIsAskedOfItself) {
  ModelFacts bare = ReadingModel("bare");
  bare.config.set_tokenizer_adds_bos(false);
  FakeReadings none;
  const auto asked = Find(Needles(), {ReadingModel("a"), bare}, 1, none);
  ASSERT_TRUE(asked.ok());
  ASSERT_EQ(asked->before.size(), 12u);
  EXPECT_TRUE(asked->before[0].measurement.text_lengths().needles().needle().has_bos_token_id());
  EXPECT_FALSE(asked->before[6].measurement.text_lengths().needles().needle().has_bos_token_id());
}

TEST(FindNeedles, ACellWithoutASampleIsAnError) {
  const std::vector<ModelFacts> models = {ReadingModel("a", 'd'), ReadingModel("b", 'e')};
  FakeReadings readings;
  const auto asked = Find(Needles(), models, 1, readings);
  ASSERT_TRUE(asked.ok());
  Answer(asked->before, 1, readings, [](const PlannedTask& task, const v1::NeedleSample& sample) {
    return task.model == "a" || sample.context_length() == 128;
  });
  const auto found = Find(Needles(), models, 2, readings);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(found.status().message()),
      HasSubstr("seed 42 no sample of context length 64 at depth 0.25 fits every model (the last one is "
                "too long for b"));
}

TEST(FindNeedles, MissingAnswersAndCorporaAreNamed) {
  const std::vector<ModelFacts> models = {ReadingModel("a", 'd'), ReadingModel("b", 'e')};
  FakeReadings none;
  EXPECT_THAT(std::string(Find(Needles(), models, 2, none).status().message()),
              HasSubstr("said nothing of sample 0 of seed 42 for model a"));
  v1::Needles needles = Needles();
  needles.mutable_haystack()->mutable_corpus()->set_name("gone@" + std::string(64, '1'));
  EXPECT_THAT(std::string(Find(needles, models, 1, none).status().message()),
              HasSubstr("is not registered any more"));
  EXPECT_THAT(std::string(Find(Needles(), {ToyModel("mute")}, 1, none).status().message()),
              HasSubstr("model mute has no tokenizer any more"));
}

TEST(NeedleSamplesTable, HoldsKeptSamplesAsRealisedAndDroppedOnesBare) {
  NeedleSamplesTable table;
  v1::NeedleSample sample;
  sample.set_context_length(64);
  sample.set_depth(0.5);
  sample.set_index(1);
  table.AddDropped("toy", "FLOAT32", "c", 42, sample);
  sample.set_index(0);
  v1::RealisedNeedle realised;
  realised.set_tokens(63);
  realised.mutable_needle()->set_first(20);
  realised.mutable_needle()->set_last(27);
  realised.set_depth(0.48);
  realised.set_words(25);
  realised.set_code_text("AB1");
  table.AddKept("toy", "FLOAT32", "c", 42, sample, realised);
  const Table finished = table.Finish();
  ASSERT_EQ(finished.slice.rows(), 2);
  EXPECT_THAT(ColumnNamed(finished, "sample").integers(), ElementsAre(0, 1));
  EXPECT_THAT(ColumnNamed(finished, "kept").integers(), ElementsAre(1, 0));
  EXPECT_EQ(ColumnNamed(finished, "tokens").integers(0), 63);
  EXPECT_EQ(ColumnNamed(finished, "needle_last").integers(0), 27);
  EXPECT_EQ(ColumnNamed(finished, "realised_depth").reals(0), 0.48);
  EXPECT_EQ(ColumnNamed(finished, "code").texts(0), "AB1");
  for (const char* column : {"tokens", "needle_first", "needle_last", "realised_depth", "words", "code"}) {
    EXPECT_TRUE(NullAt(ColumnNamed(finished, column), 1)) << column;
  }
}

TEST(NeedleSamples, AreInSqlUnlessTheyAreTooMany) {
  NeedleSamplesTable few, many;
  for (int64_t i = 0; i < 262145; ++i) {
    v1::NeedleSample sample;
    sample.set_index(i);
    many.AddDropped("toy", "FLOAT32", "c", 42, sample);
    if (i < 3) {
      few.AddDropped("toy", "FLOAT32", "c", 42, sample);
    }
  }
  EXPECT_TRUE(few.Finish().whole_in_sql);
  EXPECT_FALSE(many.Finish().whole_in_sql);
}

}  // namespace
}  // namespace ropelab::experiments
