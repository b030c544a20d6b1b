#include "server/experiments/slash_detection.h"

#include "fakes.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Detect(const std::string& prompts, const std::string& fields = "") {
  return "name: 'x' model: 'toy' slash_detection { prompts { " + prompts + " } " + fields + " }";
}
std::string Uniform(int tokens, const std::string& fields = "") {
  return Detect("uniform_tokens { count: 8 tokens: " + std::to_string(tokens) + " }", fields);
}

FakeCatalogue LongModel(int64_t max_positions) {
  ModelFacts model = ToyModel();
  model.config.set_max_positions(max_positions);
  return FakeCatalogue({model});
}

struct RegimeCase {
  const char* what;
  int tokens;
  const char* fields;
  int64_t first, last;
  double threshold;
};

// Offsets and thresholds of the slash paper (0..4 at 0.1; 500..5000 at 1e-3 for 6000 tokens), and
// ceil(N/12)..floor(5N/6) at 6/N worked by hand for other lengths.
TEST(SlashRegime, FillsOffsetsAndThreshold) {
  const RegimeCase cases[] = {
      {"small is the default", 6000, "", 0, 4, 0.1},
      {"small, said", 6000, "regime: SMALL", 0, 4, 0.1},
      {"large, at the paper's length", 6000, "regime: LARGE", 500, 5000, 1e-3},
      {"large, scaled", 1024, "regime: LARGE", 86, 853, 6.0 / 1024},
      {"large, scaled to an odd length", 97, "regime: LARGE", 9, 80, 6.0 / 97},
      {"a threshold of one's own", 1024, "regime: LARGE threshold: 0.5", 86, 853, 0.5},
      {"offsets of one's own", 1024, "offsets { first: 2 last: 9 }", 2, 9, 0.1},
      {"only the last", 1024, "offsets { last: 9 }", 0, 9, 0.1},
      {"offsets far back take the large threshold", 32768, "offsets { first: 500 last: 5000 }", 500, 5000,
       6.0 / 32768},
      {"unless small is said", 32768, "regime: SMALL offsets { first: 500 last: 5000 }", 500, 5000, 0.1},
  };
  for (const RegimeCase& c : cases) {
    const v1::SlashDetection detection =
        Resolved(Uniform(c.tokens, c.fields), LongModel(32768)).resolved.slash_detection();
    EXPECT_EQ(detection.offsets().first(), c.first) << c.what;
    EXPECT_EQ(detection.offsets().last(), c.last) << c.what;
    EXPECT_EQ(detection.threshold(), c.threshold) << c.what;
    EXPECT_FALSE(detection.has_regime()) << c.what;
  }
}

TEST(SlashResolve, ARegimeAndItsNumbersWrittenOutAreTheSameSpec) {
  EXPECT_EQ(
      Resolved(Uniform(64, "regime: SMALL")).spec_hash,
      Resolved(
          Uniform(64,
                  "offsets { first: 0 last: 4 } threshold: 0.1 skip_first: 4 rows: ALL denominator: KEPT "
                  "all_offsets: false"))
          .spec_hash);
}

TEST(SlashResolve, FillsWhatIsLeftOutOfPrompts) {
  const v1::PromptSource uniform =
      Resolved(Detect("uniform_tokens {}"), LongModel(6000)).resolved.slash_detection().prompts();
  EXPECT_EQ(uniform.uniform_tokens().count(), 500);
  EXPECT_EQ(uniform.uniform_tokens().tokens(), 6000);
  EXPECT_TRUE(uniform.uniform_tokens().special_tokens());
  EXPECT_EQ(uniform.uniform_tokens().bos(), v1::Bos::NEVER);  // no tokenizer says otherwise
  const v1::PromptSource sampled =
      Resolved(Detect("sampled {}"), LongModel(6000)).resolved.slash_detection().prompts();
  EXPECT_EQ(sampled.sampled().count(), 500);
  EXPECT_EQ(sampled.sampled().tokens(), 6000);
  EXPECT_EQ(sampled.sampled().temperature(), 1.0);
  EXPECT_EQ(sampled.sampled().bos(), v1::Bos::ALWAYS);
}

TEST(SlashResolve, BosAutoIsWhatTheTokenizerDoes) {
  ModelFacts adds = ToyModel();
  adds.config.set_tokenizer_adds_bos(true);
  EXPECT_EQ(Resolved(Uniform(64), FakeCatalogue({adds}))
                .resolved.slash_detection()
                .prompts()
                .uniform_tokens()
                .bos(),
            v1::Bos::ALWAYS);
}

struct Refusal {
  std::string spec;
  const char* problem;
};

TEST(SlashResolve, RefusesWhatCannotBeMeasured) {
  const Refusal refusals[] = {
      {Uniform(64, "rows: COMMON denominator: DEFINITION"),
       "slash_detection.denominator: divides by the whole"},
      {Uniform(64, "offsets { first: 5 last: 4 }"),
       "slash_detection.offsets.first: must be 0 to the last offset, 4"},
      {Uniform(64, "offsets { first: -1 last: 4 }"),
       "slash_detection.offsets.first: must be 0 to the last offset"},
      {Uniform(64, "offsets { last: 60 }"),
       "slash_detection.offsets.last: at most 59: a prompt of 64 tokens"},
      {Uniform(64, "offsets { last: 60 } rows: COMMON"), "slash_detection.offsets.last: at most 59"},
      {Uniform(8), "slash_detection.offsets.last: at most 3: a prompt of 8 tokens"},
      {Uniform(64, "skip_first: 64"), "slash_detection.skip_first: leaves nothing of a prompt of 64"},
      {Uniform(64, "skip_first: -1"), "slash_detection.skip_first: must be a number of positions"},
      {Uniform(64, "threshold: 0"), "slash_detection.threshold: a mean attention is above 0"},
      {Uniform(64, "threshold: 1.5"), "slash_detection.threshold: a mean attention is above 0 and at most 1"},
      {Uniform(1025),
       "slash_detection.prompts.uniform_tokens.tokens: model toy takes prompts of at most 1024"},
      {Uniform(64, "maps { size: 8 }"), "slash_detection.maps.heads: name the heads"},
      {Detect("uniform_tokens { count: 0 tokens: 64 }"),
       "slash_detection.prompts.uniform_tokens.count: the number of"},
      {Detect("uniform_tokens { count: 1000001 tokens: 64 }"),
       "uniform_tokens.count: the number of prompts is 1 to 1000000"},
      {Detect("uniform_tokens { count: 8 tokens: 0 }"),
       "uniform_tokens.tokens: a prompt has at least one token"},
      {Detect("sampled { count: 8 tokens: 64 bos: NEVER }"), "sampled.bos: sampling starts at BOS"},
      {Detect("sampled { count: 8 tokens: 64 temperature: 0 }"), "sampled.temperature: must be above 0"},
      {Detect("sampled { count: 8 tokens: 64 temperature: -1 }"), "sampled.temperature: must be above 0"},
      {Detect("needle { context_lengths: 64 haystack { generated {} } }"),
       "slash_detection.prompts.needle: model toy has no tokenizer.json"},
      {Detect(""), "slash_detection.prompts: say where the prompts come from"},
      {Detect("token_ids {}"), "slash_detection.prompts.token_ids.prompts: give at least one prompt"},
      {Detect("token_ids { prompts {} }"), "token_ids.prompts[0].ids: a prompt has at least one token"},
      {Detect("token_ids { prompts { ids: [1, 2, 3, 4, 5, 6, 7, 8, 99, 100] } }"),
       "token_ids.prompts[0].ids[9]: is outside the vocabulary of model toy: 0 to 99"},
      {Detect("token_ids { prompts { ids: [1, 2, 3, 4, 5, 6, 7, 8, -1] } }"),
       "prompts[0].ids[8]: is outside the vocabulary"},
      {"seeds: [1, 2] " + Detect("token_ids { prompts { ids: [1, 2, 3, 4, 5, 6, 7, 8, 9] } }"),
       "seeds: make no difference to given token ids"},
      {Detect("token_ids { prompts { ids: [1, 2, 3, 4, 5, 6, 7, 8, 9] } prompts { ids: [1, 2, 3, 4, 5, 6, 7, "
              "8] } }"),
       "slash_detection.offsets.last: at most 3: a prompt of 8 tokens"},
      {Detect("token_ids { prompts { ids: [1, 2, 3, 4, 5, 6, 7, 8, 9] } prompts { ids: [1, 2, 3, 4, 5, 6, 7, "
              "8] } }",
              "regime: LARGE offsets { first: 0 last: 3 } threshold: 0.1"),
       "slash_detection.regime: the large regime scales with the prompts' length, and these have 8 to 9 "
       "tokens"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(ProblemsOf(refusal.spec), ElementsAre(HasSubstr(refusal.problem))) << refusal.spec;
  }
}

TEST(SlashResolve, TheLastOffsetMayLeaveASingleEntry) {
  EXPECT_THAT(ProblemsOf(Uniform(64, "offsets { last: 59 }")), IsEmpty());
  EXPECT_THAT(ProblemsOf(Uniform(64, "offsets { last: 59 } rows: COMMON")), IsEmpty());
}

TEST(SlashResolve, AModelWithoutBosIsRefusedWhereBosIsNeeded) {
  ModelFacts model = ToyModel();
  model.config.clear_bos_token_id();
  const FakeCatalogue catalogue({model});
  EXPECT_THAT(ProblemsOf(Detect("sampled { count: 8 tokens: 64 }"), catalogue),
              ElementsAre(HasSubstr("sampled.bos: model toy has no BOS token")));
  EXPECT_THAT(ProblemsOf(Detect("uniform_tokens { count: 8 tokens: 64 bos: ALWAYS }"), catalogue),
              ElementsAre(HasSubstr("uniform_tokens.bos: model toy has no BOS token")));
  EXPECT_THAT(ProblemsOf(Uniform(64), catalogue), IsEmpty());
}

TEST(SlashResolve, AVocabularyOfSpecialTokensLeavesNothingToDraw) {
  ModelFacts model = ToyModel();
  model.config.set_vocabulary(3);
  EXPECT_THAT(ProblemsOf(Detect("uniform_tokens { count: 8 tokens: 64 special_tokens: false }"),
                         FakeCatalogue({model})),
              ElementsAre(HasSubstr("special_tokens: leaves no token of model toy")));
}

TEST(SlashResolve, EveryModelOfSeveralMustTakeThePrompts) {
  ModelFacts small = ToyModel("small");
  small.config.set_max_positions(32);
  EXPECT_THAT(ProblemsOf("name: 'x' models: ['toy', 'small'] slash_detection { prompts { uniform_tokens { "
                         "count: 8 tokens: 64 "
                         "} } }",
                         FakeCatalogue({ToyModel(), small})),
              ElementsAre(HasSubstr("tokens: model small takes prompts of at most 32 tokens")));
}

TEST(SlashResolve, ANumberThatNobodyTypedIsCalledTheDefault) {
  const auto value_of = [](const std::string& spec) {
    Problems problems;
    ResolveSubmission(ExperimentOf(spec), FakeCatalogue(), problems);
    return problems.problems().empty() ? std::string() : problems.problems()[0].value();
  };
  EXPECT_EQ(value_of(Detect("uniform_tokens { count: 8 }")), "6000 (the default)");
  EXPECT_EQ(value_of(Detect("uniform_tokens { count: 8 tokens: 6000 }")), "6000");
  EXPECT_EQ(value_of(Detect("sampled { count: 8 }")), "6000 (the default)");
  EXPECT_EQ(value_of(Uniform(8)), "4 (the default)");
  EXPECT_EQ(value_of(Uniform(8, "offsets { last: 4 }")), "4");
}

TEST(SlashResolve, RefusesMoreScoresThanATableHolds) {
  ModelFacts model = ToyModel();
  model.config.set_layers(80);
  model.config.set_query_heads(64);
  model.config.set_max_positions(32768);
  EXPECT_THAT(
      ProblemsOf(Uniform(32768, "offsets { first: 0 last: 20000 }"), FakeCatalogue({model})),
      ElementsAre(HasSubstr("slash_detection.offsets: give more than 16777216 scores over 5120 heads")));
}

// numpy: the mean of 1/(i+1) over rows 4..63 is 0.05 and more, so 0.1 is below twice that; over rows 4..6003
// it is 0.0012.
TEST(SlashResolve, WarnsOfAThresholdThatUniformAttentionComesNear) {
  const std::vector<std::string> warnings = Resolved(Uniform(12, "offsets { last: 7 }")).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(
      warnings[0],
      HasSubstr("threshold 0.1 is below twice the score of uniform attention on model toy: 0.127485 at "
                "offset 0 in a prompt of 12 tokens"));
  EXPECT_THAT(Resolved(Uniform(6000), LongModel(6000)).warnings, IsEmpty());
}

TEST(SlashResolve, ASlidingLayerRaisesTheScoreOfUniformAttention) {
  ModelFacts model = ToyModel();
  model.config.add_sliding_window(0);
  model.config.add_sliding_window(8);  // every row past the seventh gives its keys an eighth
  EXPECT_THAT(Resolved(Uniform(1024), FakeCatalogue({model})).warnings, ElementsAre(HasSubstr("0.125")));
  EXPECT_THAT(Resolved(Uniform(1024)).warnings, IsEmpty());
}

TEST(SlashRanges, ARangeThatHoldsTheSmallOffsetsIsMeasuredAlone) {
  const auto ranges =
      MeasuredRanges(Resolved(Uniform(64, "offsets { last: 20 }")).resolved.slash_detection());
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].last, 20);
}

TEST(SlashRanges, ANearRangeIsWidenedToTheSmallOffsets) {
  const auto ranges =
      MeasuredRanges(Resolved(Uniform(64, "offsets { first: 3 last: 4 }")).resolved.slash_detection());
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].first, 0);
  EXPECT_EQ(ranges[0].last, 9);
}

TEST(SlashRanges, AFarRangeOrCommonRowsMeasureTheSmallOffsetsBeside) {
  for (const char* fields : {"offsets { first: 30 last: 50 }", "offsets { first: 0 last: 4 } rows: COMMON"}) {
    const auto ranges = MeasuredRanges(Resolved(Uniform(64, fields)).resolved.slash_detection());
    ASSERT_EQ(ranges.size(), 2u) << fields;
    EXPECT_EQ(ranges[1].first, 0);
    EXPECT_EQ(ranges[1].last, 9);
    EXPECT_EQ(ranges[1].rows, v1::Rows::ALL);
  }
}

TEST(SlashRanges, ShortPromptsCutTheSmallOffsets) {
  const auto ranges = MeasuredRanges(Resolved(Uniform(12, "offsets { last: 2 }")).resolved.slash_detection());
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].last, 7);
}

// All by numpy: means of 1/(i+1) over the rows named in EXPERIMENTS' definition of the score.
TEST(SlashUniform, IsTheMeanShareOverTheSameRows) {
  const auto at = [](const std::string& fields, int64_t window, int64_t offset) {
    return UniformScores(Resolved(Uniform(64, fields)).resolved.slash_detection(), 64, window, offset, offset)
        .at(0);
  };
  EXPECT_NEAR(at("", 0, 3), 0.037737434400853094, 1e-16);
  EXPECT_NEAR(at("denominator: DEFINITION", 0, 3), 0.03526284853850207, 1e-16);
  EXPECT_NEAR(at("", 16, 3), 0.06645389211178684, 1e-16);
  EXPECT_NEAR(at("rows: COMMON offsets { last: 20 }", 0, 3), 0.024198318148806554, 1e-16);
}

// The hash is that of the message written out by hand, by another implementation of the canonical walk.
TEST(SlashResolve, AResolvedSpecKeepsItsHash) {
  const ResolvedExperiment experiment = Resolved(
      "name: 'drawn from the model' model: 'toy' dtype: FLOAT16 priority: BATCH slash_detection { prompts { "
      "sampled { "
      "count: 9 tokens: 96 temperature: 0.75 bos: AUTO } } regime: LARGE }");
  EXPECT_EQ(experiment.spec_hash, "49dc073db506931b67ca9eecfa66e5df7b89b06f70a8749a8afc05370f61c17e");
}

}  // namespace
}  // namespace ropelab::experiments
