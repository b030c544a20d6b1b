// What holds for a spec of any kind.
#include "fakes.h"
#include "server/experiments/model_names.h"
#include "server/experiments/spec_rules.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kDetect[] = "slash_detection { prompts { uniform_tokens { count: 8 tokens: 64 } } }";

std::string With(const std::string& fields) {
  return fields + " " + kDetect;
}

TEST(Submission, FillsTheCommonDefaults) {
  const v1::ExperimentSpec spec = Resolved(With("model: 'toy'")).resolved;
  EXPECT_TRUE(spec.model().empty());
  EXPECT_THAT(spec.models(), ElementsAre("toy"));
  EXPECT_EQ(spec.dtype(), v1::Dtype::FLOAT32);
  EXPECT_EQ(spec.priority(), v1::Priority::NORMAL);
  EXPECT_THAT(spec.seeds(), ElementsAre(42u));
}

TEST(Submission, OneModelAndAListOfOneResolveToTheSameHash) {
  EXPECT_EQ(Resolved(With("model: 'toy'")).spec_hash, Resolved(With("models: 'toy'")).spec_hash);
}

TEST(Submission, KeepsWhatWasTypedBesideWhatWasResolved) {
  const ResolvedExperiment experiment = Resolved(With("model: 'toy'"));
  EXPECT_EQ(experiment.typed.model(), "toy");
  EXPECT_FALSE(experiment.typed.has_priority());
  EXPECT_EQ(experiment.kind, "slash_detection");
  EXPECT_EQ(experiment.estimate.kind(), "slash_detection");
}

TEST(Submission, TheCheckpointsOwnDtypeIsTheDefault) {
  ModelFacts model = ToyModel();
  model.config.set_dtype(v1::Dtype::BFLOAT16);
  EXPECT_EQ(Resolved(With("model: 'toy'"), FakeCatalogue({model})).resolved.dtype(), v1::Dtype::BFLOAT16);
  EXPECT_EQ(Resolved(With("model: 'toy' dtype: FLOAT32"), FakeCatalogue({model})).resolved.dtype(),
            v1::Dtype::FLOAT32);
}

TEST(Submission, ModelsOfDifferentDtypesEachKeepTheirOwn) {
  ModelFacts other = ToyModel("other");
  other.config.set_dtype(v1::Dtype::FLOAT16);
  EXPECT_FALSE(
      Resolved(With("models: ['toy', 'other']"), FakeCatalogue({ToyModel(), other})).resolved.has_dtype());
}

TEST(Submission, AnUnknownModelIsRefusedWithTheKnownNames) {
  EXPECT_THAT(
      ProblemsOf(With("model: 'tow'"), FakeCatalogue({ToyModel("zebra"), ToyModel("ant")})),
      ElementsAre("model: no worker ever announced a model of this name; known: ant, zebra; a "
                  "worker looks through its folders every few seconds, so wait a moment after adding one"));
  EXPECT_THAT(ProblemsOf(With("model: 'tow'"), FakeCatalogue(std::vector<ModelFacts>{})),
              ElementsAre(HasSubstr("model: no worker has announced a model yet")));
}

TEST(Submission, AnUnknownModelIsToldWhichWasProbablyMeant) {
  const FakeCatalogue known({ToyModel("needle-tiny"), ToyModel("ant")});
  for (const char* typed : {"needle-tny", "needle_tiny", "needle-tny@aaaaaaaa"}) {
    EXPECT_THAT(ProblemsOf(With(std::string("model: '") + typed + "'"), known),
                ElementsAre(HasSubstr("of this name. Is \"needle-tiny\" meant? Known: ant, needle-tiny; ")));
  }
}

TEST(Submission, AModelMustBeNamed) {
  EXPECT_THAT(ProblemsOf(kDetect), ElementsAre(HasSubstr("model: name the model to measure")));
  EXPECT_THAT(ProblemsOf(With("models: ['toy', '']")),
              ElementsAre(HasSubstr("models[1]: name the model: known: ")));
}

TEST(Submission, ModelAndModelsExcludeEachOther) {
  EXPECT_THAT(ProblemsOf(With("model: 'toy' models: 'toy'")),
              ElementsAre(HasSubstr("models: model and models exclude")));
}

TEST(Submission, AModelNamedTwiceIsRefused) {
  EXPECT_THAT(ProblemsOf(With("models: ['toy', 'toy']")),
              ElementsAre(HasSubstr("models[1]: is named twice")));
}

TEST(Submission, AModelThatCannotBeLoadedIsRefusedWithTheReason) {
  ModelFacts broken = ToyModel();
  broken.problem = "model.safetensors ends 12 bytes early";
  EXPECT_THAT(ProblemsOf(With("model: 'toy'"), FakeCatalogue({broken})),
              ElementsAre("model: the model cannot be loaded: model.safetensors ends 12 bytes early"));
}

TEST(Submission, AModelThatWasMendedIsNotAmbiguous) {
  ModelFacts broken = ToyModel();
  broken.problem = "model.safetensors ends 12 bytes early";
  broken.config_hash.clear();
  broken.weights_hash.clear();
  EXPECT_THAT(ProblemsOf(With("model: 'toy'"), FakeCatalogue({broken, ToyModel()})), IsEmpty());
}

class TwoCheckpointsOfOneName : public testing::Test {
 protected:
  TwoCheckpointsOfOneName() {
    other_.weights_hash = "cafe0123456789ab" + std::string(48, '0');
    catalogue_ = FakeCatalogue({ToyModel(), other_});
  }
  ModelFacts other_ = ToyModel();
  FakeCatalogue catalogue_;
};

TEST_F(TwoCheckpointsOfOneName, TheNameAloneIsRefusedWithTheChoices) {
  EXPECT_THAT(ProblemsOf(With("model: 'toy'"), catalogue_),
              ElementsAre("model: the name stands for several checkpoints; say which: toy@aaaaaaaaaaaaaaaa, "
                          "toy@cafe0123456789ab"));
}

TEST_F(TwoCheckpointsOfOneName, AHashOfEightDigitsTellsThemApart) {
  EXPECT_THAT(Resolved(With("model: 'toy@cafe0123'"), catalogue_).resolved.models(),
              ElementsAre("toy@cafe0123456789ab"));
}

TEST_F(TwoCheckpointsOfOneName, AShortOrWrongHashIsRefused) {
  EXPECT_THAT(ProblemsOf(With("model: 'toy@cafe012'"), catalogue_),
              ElementsAre(HasSubstr("at least 8 lower-case hex")));
  EXPECT_THAT(ProblemsOf(With("model: 'toy@CAFE0123'"), catalogue_),
              ElementsAre(HasSubstr("at least 8 lower-case hex")));
}

TEST_F(TwoCheckpointsOfOneName, AHashThatNoneHasIsRefusedWithThoseThereAre) {
  EXPECT_THAT(ProblemsOf(With("model: 'toy@deadbeef'"), catalogue_),
              ElementsAre("model: no checkpoint of the name has a hash that begins with deadbeef; there is "
                          "toy@aaaaaaaaaaaaaaaa, toy@cafe0123456789ab"));
  EXPECT_THAT(ProblemsOf(With("model: 'toy@deadbeef'"), FakeCatalogue({ToyModel()})),
              ElementsAre("model: no checkpoint of the name has a hash that begins with deadbeef; there is "
                          "toy@aaaaaaaaaaaaaaaa"));
  EXPECT_THAT(ProblemsOf(With("model: 'toy@cafe0123@ffffffff'"), catalogue_),
              ElementsAre(HasSubstr("has hashes that begin with cafe0123 and ffffffff; there is toy@aaaa")));
}

class TwoTokenizersOfOneModel : public testing::Test {
 protected:
  std::vector<std::string> Models(const std::string& typed) {
    const v1::ExperimentSpec spec = Resolved(With("model: '" + typed + "'"), catalogue_).resolved;
    return {spec.models().begin(), spec.models().end()};
  }
  FakeCatalogue catalogue_ = FakeCatalogue({ReadingModel(), ReadingModel("toy", 'f'), ToyModel()});
};

TEST_F(TwoTokenizersOfOneModel, TheNameAndTheWeightsAreRefusedWithTheTokenizers) {
  for (const char* typed : {"toy", "toy@aaaaaaaa"}) {
    EXPECT_THAT(ProblemsOf(With("model: '" + std::string(typed) + "'"), catalogue_),
                ElementsAre("model: workers hold the checkpoint of this name with different tokenizers; put "
                            "the same tokenizer.json into all its directories, or say which: "
                            "toy@dddddddddddddddd, toy@ffffffffffffffff, toy@none"));
  }
}

TEST_F(TwoTokenizersOfOneModel, ATokenizersHashTellsThemApart) {
  EXPECT_THAT(Models("toy@ffffffff"), ElementsAre("toy@ffffffffffffffff"));
  EXPECT_THAT(Models("toy@none"), ElementsAre("toy@none"));
  EXPECT_THAT(Models("toy@aaaaaaaa@ffffffff"), ElementsAre("toy@aaaaaaaaaaaaaaaa@ffffffffffffffff"));
  const std::vector<ModelFacts> known = catalogue_.Models();
  EXPECT_EQ(FindModel(known, "toy@ffffffffffffffff")->tokenizer_hash, std::string(64, 'f'));
  EXPECT_EQ(FindModel(known, "toy@none")->tokenizer_hash, "");
}

TEST_F(TwoTokenizersOfOneModel, OtherWeightsBesideThemTakeBothHashes) {
  ModelFacts other = ReadingModel("toy", 'f');
  other.weights_hash = std::string(64, 'c');
  catalogue_ = FakeCatalogue({ReadingModel(), ReadingModel("toy", 'f'), other});
  EXPECT_THAT(
      ProblemsOf(With("model: 'toy'"), catalogue_),
      ElementsAre("model: the name stands for several checkpoints; say which: "
                  "toy@aaaaaaaaaaaaaaaa@ffffffffffffffff, toy@cccccccccccccccc, toy@dddddddddddddddd"));
  EXPECT_THAT(Models("toy@aaaaaaaa@ffffffff"), ElementsAre("toy@aaaaaaaaaaaaaaaa@ffffffffffffffff"));
  EXPECT_THAT(Models("toy@cccccccc"), ElementsAre("toy@cccccccccccccccc"));
}

TEST(Submission, TakesInt8WhateverTheCheckpointsOwnDtype) {
  EXPECT_EQ(Resolved(With("model: 'toy' dtype: INT8")).resolved.dtype(), v1::Dtype::INT8);
}

TEST(Submission, EachSeedIsNamedOnceAndFitsATable) {
  EXPECT_THAT(ProblemsOf(With("model: 'toy' seeds: [1, 2, 1]")),
              ElementsAre(HasSubstr("seeds[2]: stands there twice")));
  EXPECT_THAT(ProblemsOf(With("model: 'toy' seeds: 9223372036854775808")),
              ElementsAre(HasSubstr("seeds[0]: does not fit")));
  EXPECT_THAT(ProblemsOf(With("model: 'toy' seeds: 9223372036854775807")), IsEmpty());
}

TEST(Submission, NumericsIsSixteenHexDigits) {
  EXPECT_THAT(ProblemsOf(With("model: 'toy' numerics: '0123456789abcdef'")), IsEmpty());
  for (const std::string bad : {"0123", "0123456789ABCDEF", "0123456789abcdeg"}) {
    EXPECT_THAT(ProblemsOf(With("model: 'toy' numerics: '" + bad + "'")),
                ElementsAre(HasSubstr("numerics: ")))
        << bad;
  }
}

TEST(Submission, TagsAndNamesAreOneLineOfText) {
  EXPECT_THAT(
      ProblemsOf(With("model: 'toy' name: 'a\\nb' tags: ['ok', '', 'ok', 'x\\ty']")),
      ElementsAre(HasSubstr("name: holds a control character"), HasSubstr("tags[1]: a tag is 1 to 64 bytes"),
                  HasSubstr("tags[2]: stands there twice"), HasSubstr("tags[3]: a tag is")));
}

TEST(Submission, EveryProblemIsToldAtOnceInFieldOrder) {
  EXPECT_THAT(
      ProblemsOf("model: 'tow' seeds: [3, 3] tags: '' slash_detection { threshold: 7 skip_first: -1 "
                 "prompts { uniform_tokens { count: 0 tokens: 64 } } }"),
      ElementsAre(HasSubstr("model: "), HasSubstr("seeds[1]: "), HasSubstr("tags[0]: "),
                  HasSubstr("slash_detection.prompts.uniform_tokens.count: "),
                  HasSubstr("slash_detection.threshold: "), HasSubstr("slash_detection.skip_first: ")));
}

TEST(Submission, ASpecWithoutAKindIsToldWhichThereAre) {
  EXPECT_THAT(BuiltKinds(), testing::StartsWith("slash_detection, "));
  EXPECT_THAT(ProblemsOf("name: 'x' model: 'toy'"),
              ElementsAre("kind: the spec says no experiment; this version runs " + BuiltKinds()));
  EXPECT_THAT(ProblemsOf(v1::Submission()),
              ElementsAre(HasSubstr("holds neither an experiment nor a study")));
}

TEST(Submission, EveryKindOfTheLanguageStandsInTheTable) {
  const auto* kinds = v1::ExperimentSpec::descriptor()->FindOneofByName("kind");
  ASSERT_EQ(static_cast<int>(Kinds().size()), kinds->field_count());
  for (int i = 0; i < kinds->field_count(); ++i) {
    EXPECT_NE(FindKind(kinds->field(i)->name()), nullptr) << kinds->field(i)->name();
  }
}

TEST(Submission, AKindThatIsNotBuiltIsRefusedByNameWithThoseThatAre) {
  for (const Kind& kind : Kinds()) {
    if (kind.experiment == nullptr) {
      const std::string field(kind.field);
      EXPECT_THAT(ProblemsOf(field + " {}"),
                  ElementsAre(field + ": is not built in this version; this version runs " + BuiltKinds()));
    }
  }
}

TEST(Study, GivesItsDefaultsToExperimentsThatSayNothingElse) {
  Problems problems;
  const ResolvedSubmission result = ResolveSubmission(
      StudyOf(std::string(
                  "name: 's' model: 'toy' dtype: BFLOAT16 priority: BATCH seeds: [1, 2] tags: 't' numerics: "
                  "'0123456789abcdef' experiments { name: 'a' ") +
              kDetect +
              "} experiments { name: 'b' model: 'other' dtype: FLOAT16 priority: NORMAL seeds: 9 tags: 'u' " +
              kDetect + "}"),
      FakeCatalogue({ToyModel(), ToyModel("other")}), problems);
  ASSERT_TRUE(problems.empty());
  ASSERT_EQ(result.experiments.size(), 2u);
  EXPECT_TRUE(result.is_study);
  EXPECT_EQ(result.study_name, "s");
  const v1::ExperimentSpec& a = result.experiments[0].resolved;
  EXPECT_THAT(a.models(), ElementsAre("toy"));
  EXPECT_EQ(a.dtype(), v1::Dtype::BFLOAT16);
  EXPECT_EQ(a.priority(), v1::Priority::BATCH);
  EXPECT_THAT(a.seeds(), ElementsAre(1u, 2u));
  EXPECT_THAT(a.tags(), ElementsAre("t"));
  EXPECT_EQ(a.numerics(), "0123456789abcdef");
  const v1::ExperimentSpec& b = result.experiments[1].resolved;
  EXPECT_THAT(b.models(), ElementsAre("other"));
  EXPECT_EQ(b.dtype(), v1::Dtype::FLOAT16);
  EXPECT_EQ(b.priority(), v1::Priority::NORMAL);
  EXPECT_THAT(b.seeds(), ElementsAre(9u));
  EXPECT_THAT(b.tags(), ElementsAre("u"));
}

TEST(Study, AnExperimentsOwnModelsReplaceTheStudysModel) {
  const v1::Submission study =
      StudyOf(std::string("model: 'toy' experiments { name: 'a' models: ['other', 'toy'] ") + kDetect + "}");
  EXPECT_THAT(ProblemsOf(study, FakeCatalogue({ToyModel(), ToyModel("other")})), IsEmpty());
}

TEST(Study, ItsModelIsNotForExperimentsThatNeedNone) {
  EXPECT_THAT(
      ProblemsOf(StudyOf("model: 'toy' dtype: FLOAT32 experiments { name: 'clock' rope_geometry {} }")),
      IsEmpty());
}

TEST(Study, PathsNameTheExperiment) {
  EXPECT_THAT(
      ProblemsOf(StudyOf(
          "model: 'toy' experiments { name: 'detect' slash_detection { offsets { last: 500 } prompts { "
          "uniform_tokens { count: 8 tokens: 64 } } } } experiments { rope_geometry { positions: 1 } }")),
      ElementsAre(HasSubstr("experiments.detect.slash_detection.offsets.last: at most 59"),
                  HasSubstr("experiments[1].name: an experiment of a study needs a name"),
                  HasSubstr("experiments[1].rope_geometry.positions: must be 2 to 4096")));
}

TEST(Study, NamesAreUnique) {
  EXPECT_THAT(ProblemsOf(StudyOf(
                  "experiments { name: 'a' rope_geometry {} } experiments { name: 'a' rope_geometry {} }")),
              ElementsAre(HasSubstr("experiments[1].name: is the name of an earlier experiment too")));
}

TEST(Study, WhatIsWrongWithItsOwnFieldsIsSaidOnce) {
  EXPECT_THAT(
      ProblemsOf(StudyOf(std::string("model: 'tow' seeds: [1, 1] experiments { name: 'a' ") + kDetect +
                         "} experiments { name: 'b' " + kDetect + "}")),
      ElementsAre(HasSubstr("model: no worker ever announced"), HasSubstr("seeds[1]: stands there twice")));
}

TEST(Study, HoldsAtLeastOneExperiment) {
  EXPECT_THAT(ProblemsOf(StudyOf("name: 'empty'")),
              ElementsAre(HasSubstr("experiments: a study holds at least one")));
}

TEST(Study, TheSubmissionsHashTellsStudiesApart) {
  Problems problems;
  const auto hash = [&](const char* text) {
    return ResolveSubmission(StudyOf(text), FakeCatalogue(), problems).submission_hash;
  };
  const std::string once = hash("experiments { name: 'a' rope_geometry {} }");
  EXPECT_EQ(once.size(), 64u);
  EXPECT_EQ(once, hash("experiments { name: 'a' rope_geometry {} }"));
  EXPECT_NE(once, hash("experiments { name: 'a' rope_geometry { head_dim: 8 } }"));
}

}  // namespace
}  // namespace ropelab::experiments
