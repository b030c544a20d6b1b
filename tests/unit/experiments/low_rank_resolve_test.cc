#include <string>

#include "fakes.h"
#include "server/experiments/low_rank_edit.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kHeads[] = "list { head { layer: 0 head: 2 } head { layer: 1 head: 3 } }";
constexpr char kPrompts[] = "perplexity { prompts { uniform_tokens { count: 10 tokens: 64 } } }";

std::string LowRankSpec(const std::string& fields, const std::string& heads = kHeads,
                        const std::string& prompts = kPrompts, const std::string& common = "model: 'toy'") {
  return "name: 'x' " + common + " low_rank { heads { " + heads + " } " + prompts + " " + fields + " }";
}

TEST(LowRankResolve, WritesEveryDefaultOut) {
  const v1::LowRank resolved = Resolved(LowRankSpec("ranks: [4, 1, 2]")).resolved.low_rank();
  EXPECT_THAT(resolved.ranks(), ElementsAre(1, 2, 4));
  EXPECT_THAT(resolved.matrices(), ElementsAre(v1::Matrix::QUERY, v1::Matrix::KEY));
  ASSERT_EQ(resolved.controls_size(), 1);
  EXPECT_EQ(resolved.controls(0).random().draws(), 10);
  EXPECT_TRUE(resolved.perplexity().prompts().uniform_tokens().special_tokens());
  const v1::LowRank matched =
      Resolved(LowRankSpec("ranks: 1 controls { layer_matched {} } controls { random { draws: 11 } }"))
          .resolved.low_rank();
  EXPECT_EQ(matched.controls(0).layer_matched().draws(), 10);
  EXPECT_EQ(matched.controls(0).layer_matched().shortfall(), v1::Shortfall::ERROR);
  EXPECT_EQ(matched.controls(1).random().draws(), 11);
}

TEST(LowRankResolve, OrderMovesNothing) {
  EXPECT_EQ(Resolved(LowRankSpec("ranks: [4, 1] matrices: [KEY, QUERY]")).spec_hash,
            Resolved(LowRankSpec("ranks: [1, 4]")).spec_hash);
}

TEST(LowRankResolve, TakesEveryRankUpToTheHeadsDimensions) {
  EXPECT_THAT(ProblemsOf(LowRankSpec("ranks: [1, 16]")), IsEmpty());
}

TEST(LowRankResolve, RefusesByField) {
  const std::pair<std::string, const char*> refusals[] = {
      {LowRankSpec(""), "low_rank.ranks: say the ranks to try"},
      {LowRankSpec("ranks: [2, 0]"), "low_rank.ranks[1]: a rank is 1 or more"},
      {LowRankSpec("ranks: [2, 17]"),
       "low_rank.ranks[1]: heads of model toy have 16 dimensions; a rank is 1 to 16"},
      {LowRankSpec("ranks: [2, 1, 2]"), "low_rank.ranks[2]: stands there twice"},
      {LowRankSpec("ranks: 2 matrices: [KEY, KEY]"), "low_rank.matrices[1]: is named twice"},
      {LowRankSpec("ranks: 2", ""), "low_rank.heads: name the heads"},
      {LowRankSpec("ranks: 2", "list { head { layer: 2 head: 0 } }"),
       "low_rank.heads.list.head[0]: model toy"},
      {LowRankSpec("ranks: 2", kHeads, ""), "low_rank.perplexity.prompts: say where the prompts come from"},
      {LowRankSpec("ranks: 2 needles { haystack { generated {} } context_lengths: 64 }"),
       "low_rank.needles: model toy has no tokenizer"},
      {LowRankSpec("ranks: 2", kHeads,
                   "perplexity { prompts { token_ids { prompts { ids: [1, 2] } prompts { ids: 3 } } } }"),
       "low_rank.perplexity.prompts: a prompt of one token has nothing to predict"},
      {LowRankSpec("ranks: 2 controls {}"), "low_rank.controls[0]: say which"},
      {LowRankSpec("ranks: 2 controls { random { draws: 9 } }"),
       "low_rank.controls[0].random.draws: give 10 to 1000 draws"},
      {LowRankSpec("ranks: 2 controls { random { draws: 1001 } }"),
       "low_rank.controls[0].random.draws: give 10 to 1000 draws"},
      {LowRankSpec("ranks: 2 controls { random {} } controls { layer_matched { draws: 0 } }"),
       "low_rank.controls[1].layer_matched.draws: give 1 to 1000 draws"},
      {LowRankSpec("ranks: 2 controls { random {} } controls { random { draws: 12 } }"),
       "low_rank.controls[1]: is named twice"},
      {LowRankSpec("ranks: [1, 2, 3, 4, 5] controls { random { draws: 1000 } }"),
       "low_rank.ranks: make with the controls' draws 5006 conditions; at most 4096"},
  };
  for (const auto& [spec, problem] : refusals) {
    EXPECT_THAT(ProblemsOf(spec), ElementsAre(HasSubstr(problem))) << spec;
  }
}

constexpr char kThreeOfALayer[] =
    "list { head { layer: 1 head: 0 } head { layer: 1 head: 1 } head { layer: 1 head: 3 } head { layer: 0 "
    "head: 0 } }";

std::vector<std::string> WarningsOf(const std::string& spec) {
  Problems problems;
  ResolveSubmission(ExperimentOf(spec), FakeCatalogue(), problems);
  EXPECT_TRUE(problems.empty());
  return problems.warnings();
}

TEST(LowRankResolve, AMatchedControlWithoutEnoughHeadsNamesTheLayers) {
  EXPECT_THAT(ProblemsOf(LowRankSpec("ranks: 2 controls { layer_matched {} }", kThreeOfALayer)),
              ElementsAre(HasSubstr("low_rank.controls[0].layer_matched: of model toy layer 1 has 1 of 3 "
                                    "heads left; say shortfall: REPORT_PARTIAL")));
  EXPECT_THAT(WarningsOf(LowRankSpec("ranks: 2 controls { layer_matched { shortfall: REPORT_PARTIAL } }",
                                     kThreeOfALayer)),
              ElementsAre(HasSubstr("layer 1 has 1 of 3 heads left")));
}

// 64 x 16: two factors of rank 12 hold 960 of 1024 parameters, of rank 13 1040.
TEST(LowRankResolve, WarnsOfRanksThatSaveNothing) {
  EXPECT_THAT(WarningsOf(LowRankSpec("ranks: 12")), IsEmpty());
  EXPECT_THAT(WarningsOf(LowRankSpec("ranks: [1, 13]")),
              ElementsAre(HasSubstr("above rank 12 the two factors")));
}

TEST(LowRankEdit, SavedParametersCountAKvGroupsKeyOnce) {
  const v1::ModelConfig config = ToyModel().config;  // query heads 0, 1 and 2, 3 share their keys
  Matrices query, key, both;
  query.Add(v1::Matrix::QUERY);
  key.Add(v1::Matrix::KEY);
  both.MergeFrom(query);
  both.MergeFrom(key);
  const std::vector<NamedHead> heads = {{0, 0, {}}, {0, 1, {}}, {1, 1, {}}};
  EXPECT_EQ(SavedParameters(config, heads, 4, query), 3 * (1024 - 4 * 80));
  EXPECT_EQ(SavedParameters(config, heads, 4, key), 2 * (1024 - 4 * 80));
  EXPECT_EQ(SavedParameters(config, heads, 4, both), 5 * (1024 - 4 * 80));
  EXPECT_EQ(SavedParameters(config, heads, 16, query), -3 * 256);
  EXPECT_EQ(SavedParameters(config, {}, 4, both), 0);
}

}  // namespace
}  // namespace ropelab::experiments
