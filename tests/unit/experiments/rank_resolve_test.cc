#include "fakes.h"
#include "server/experiments/rank_analysis.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string RankSpec(const std::string& fields,
                     const std::string& prompts = "uniform_tokens { count: 12 tokens: 64 }") {
  return "name: 'x' model: 'toy' rank_analysis { heads { list { head { layer: 1 head: 3 } } } prompts { " +
         prompts + " } " + fields + " }";
}

TEST(RankResolve, WritesThePapersValuesOut) {
  const v1::RankAnalysis analysis = Resolved(RankSpec("")).resolved.rank_analysis();
  EXPECT_EQ(analysis.energy(), 0.95);
  EXPECT_EQ(analysis.hidden_stage(), v1::HiddenStage::NORMED);
  EXPECT_TRUE(analysis.has_vocabulary() && analysis.vocabulary());
  EXPECT_TRUE(analysis.has_norm_weight() && analysis.norm_weight());
  EXPECT_FALSE(analysis.has_block());
  EXPECT_FALSE(analysis.has_hidden_view());
  EXPECT_EQ(analysis.prompts().uniform_tokens().count(), 12);
}

TEST(RankResolve, DefaultsWrittenOutAreTheSameSpec) {
  EXPECT_EQ(
      Resolved(RankSpec("")).spec_hash,
      Resolved(RankSpec("energy: 0.95 hidden_stage: NORMED vocabulary: true norm_weight: true")).spec_hash);
  EXPECT_EQ(Resolved(RankSpec("block: 8")).spec_hash,
            Resolved(RankSpec("block: 8 hidden_view: FIRST_COORDINATES")).spec_hash);
  EXPECT_NE(Resolved(RankSpec("")).spec_hash, Resolved(RankSpec("vocabulary: false")).spec_hash);
}

TEST(RankResolve, WithoutTheVocabularyThereIsNoCone) {
  EXPECT_FALSE(Resolved(RankSpec("vocabulary: false")).resolved.rank_analysis().has_norm_weight());
}

struct Refusal {
  const char* fields;
  const char* said;
};

TEST(RankResolve, RefusesWithThePathOfTheField) {
  const Refusal refusals[] = {
      {"energy: 0", "rank_analysis.energy: a share of the squared singular values"},
      {"energy: 1.01", "rank_analysis.energy: a share of the squared singular values"},
      {"block: 0", "rank_analysis.block: a view has 1 to 4096 rows"},
      {"block: 4097", "rank_analysis.block: a view has 1 to 4096 rows"},
      {"block: 65", "rank_analysis.block: at most 64: a view shows the first prompt"},
      {"vocabulary: false norm_weight: true",
       "rank_analysis.norm_weight: is of the cone over the vocabulary"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(ProblemsOf(RankSpec(refusal.fields)), ElementsAre(HasSubstr(refusal.said))) << refusal.fields;
  }
  for (const char* fields : {"energy: 1", "energy: 1e-9", "block: 64 hidden_view: PCA", "block: 1"}) {
    EXPECT_THAT(ProblemsOf(RankSpec(fields)), IsEmpty()) << fields;
  }
}

TEST(RankResolve, AViewsKindWithoutAViewIsNamedAndLeftOut) {
  const ResolvedExperiment experiment = Resolved(RankSpec("hidden_view: PCA"));
  EXPECT_THAT(experiment.warnings,
              ElementsAre(HasSubstr("rank_analysis.hidden_view PCA changes nothing: no rows are kept")));
  EXPECT_EQ(experiment.spec_hash, Resolved(RankSpec("")).spec_hash);
}

TEST(RankResolve, NeedsHeadsAndPrompts) {
  EXPECT_THAT(ProblemsOf("name: 'x' model: 'toy' rank_analysis {}"),
              ElementsAre(HasSubstr("rank_analysis.heads: "), HasSubstr("rank_analysis.prompts: ")));
  EXPECT_THAT(
      ProblemsOf(
          "name: 'x' model: 'toy' rank_analysis { heads { list { head { layer: 2 head: 0 } } } prompts { "
          "uniform_tokens { count: 1 tokens: 4 } } }"),
      ElementsAre(HasSubstr("rank_analysis.heads.list.head[0]: model toy has layers 0 to 1")));
}

TEST(RankResolve, AViewIsOfTheFirstPromptWhateverTheOthersHave) {
  const std::string prompts = "token_ids { prompts { ids: [5, 6, 7] } prompts { ids: [5, 6] } }";
  EXPECT_THAT(ProblemsOf(RankSpec("block: 3", prompts)), IsEmpty());
  EXPECT_THAT(ProblemsOf(RankSpec("block: 4", prompts)),
              ElementsAre(HasSubstr("rank_analysis.block: at most 3")));
}

// Four heads' Q and K and two layers' H of 4096 rows and 16384 columns, four bytes each: 2560 MiB.
TEST(RankResolve, RefusesViewsThatTakeTooMuch) {
  ModelFacts model = ToyModel();
  model.config.set_head_dim(16384);
  model.config.set_max_positions(8192);
  const std::string heads =
      "heads { list { head { layer: 0 head: 0 } head { layer: 0 head: 1 } head { layer: 1 head: 0 } head { "
      "layer: 1 head: 1 } } }";
  EXPECT_THAT(ProblemsOf("name: 'x' model: 'toy' rank_analysis { block: 4096 " + heads +
                             " prompts { uniform_tokens { count: 1 tokens: 8192 } } }",
                         FakeCatalogue({model})),
              ElementsAre(HasSubstr("rows of 4 heads of model toy take 2560 MiB; at most 256 MiB")));
}

// Per model one task of weights, per seed one of the vocabulary and two blocks of prompts.
TEST(RankResolve, CostCountsTasks) {
  std::string spec = RankSpec("");
  EXPECT_EQ(Resolved(spec).estimate.tasks(), 1 + 1 + 2);
  EXPECT_EQ(Resolved("seeds: [1, 2, 3] " + spec).estimate.tasks(), 1 + 3 * (1 + 2));
  EXPECT_EQ(Resolved(RankSpec("vocabulary: false")).estimate.tasks(), 1 + 2);
  EXPECT_EQ(Resolved(RankSpec("", "sampled { count: 12 tokens: 64 }")).estimate.tasks(), 2 + 1 + 1 + 2);
  EXPECT_GT(Resolved(RankSpec("block: 64")).estimate.result_bytes(), Resolved(spec).estimate.result_bytes());
}

}  // namespace
}  // namespace ropelab::experiments
