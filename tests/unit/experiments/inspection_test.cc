#include "server/experiments/inspection.h"

#include "fakes.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Inspect(const std::string& fields, const std::string& common = "model: 'toy'") {
  return "name: 'look inside' " + common + " inspection { " + fields + " }";
}

const std::string kTwoHeads = "list { head { layer: 1 head: 3 offset: 4 } head { layer: 0 head: 1 } }";

std::string Edited(const std::string& edit) {
  return Inspect("token_ids { ids: 1 } interventions { low_rank { " + edit + " } }");
}

TEST(InspectionResolve, DumpsTheLogitsUnlessTold) {
  EXPECT_THAT(Resolved(Inspect("token_ids { ids: 1 }")).resolved.inspection().dump(), ElementsAre("logits"));
}

TEST(InspectionResolve, SortsTheNamesSoThatTheirOrderMovesNothing) {
  EXPECT_EQ(Resolved(Inspect("token_ids { ids: 1 } dump: ['q_rot', 'hidden']")).spec_hash,
            Resolved(Inspect("token_ids { ids: 1 } dump: ['hidden', 'q_rot']")).spec_hash);
}

TEST(InspectionResolve, KnowsEveryDocumentedTensor) {
  EXPECT_THAT(
      ProblemsOf(Inspect(
          "token_ids { ids: 1 } dump: ['input_ids', 'logits', 'attn_probs', 'q_pre', 'k_pre', 'q_rot', "
          "'k_rot', 'hidden', 'inv_freq']")),
      IsEmpty());
}

TEST(InspectionResolve, RefusesWhatCannotBeShown) {
  const std::pair<std::string, const char*> refusals[] = {
      {Inspect(""), "inspection.token_ids.ids: give 1 to 4096 token ids"},
      {Inspect("token_ids { ids: [1, 100] }"),
       "inspection.token_ids.ids[1]: is outside the vocabulary of model toy: 0 to 99"},
      {Inspect("token_ids { ids: 1 } dump: ['logits', 'values']"),
       "inspection.dump[1]: is no tensor; say one of attn_probs"},
      {Inspect("token_ids { ids: 1 } dump: ['logits', 'logits']"), "inspection.dump[1]: is named twice"},
      {Inspect("token_ids { ids: 1 } interventions {}"), "inspection.interventions[0]: say the edit"},
      {Edited("rank: 2"), "inspection.interventions[0].low_rank.heads: an inspection names its heads"},
      {Edited("rank: 2 heads { slash_dominant { experiment: 'd' } }"), "low_rank.heads: an inspection names"},
      {Edited("rank: 2 heads { list { head { layer: 2 head: 0 } } }"),
       "inspection.interventions[0].low_rank.heads.list.head[0]: model toy has layers 0 to 1"},
      {Edited("heads { " + kTwoHeads + " }"), "inspection.interventions[0].low_rank.rank: say the rank"},
      {Edited("rank: 17 heads { " + kTwoHeads + " }"),
       "inspection.interventions[0].low_rank.rank: heads of model toy have 16 dimensions"},
      {Edited("rank: 2 matrices: [KEY, KEY] heads { " + kTwoHeads + " }"),
       "inspection.interventions[0].low_rank.matrices[1]: is named twice"},
      {Inspect("token_ids { ids: 1 }", "model: 'toy' seeds: [1, 2]"), "seeds: make no difference"},
  };
  for (const auto& [spec, problem] : refusals) {
    EXPECT_THAT(ProblemsOf(spec), ElementsAre(HasSubstr(problem))) << spec;
  }
  EXPECT_THAT(ProblemsOf(Inspect("token_ids { ids: 1 }", "models: ['toy', 'other']"),
                         FakeCatalogue({ToyModel(), ToyModel("other")})),
              ElementsAre(HasSubstr("models: an inspection takes one model")));
}

std::string Ids(int count) {
  std::string ids = "token_ids { ids: [1";
  for (int i = 1; i < count; ++i) {
    ids += ", 1";
  }
  return ids + "] }";
}

TEST(InspectionResolve, RefusesAPromptLongerThanTheModel) {
  EXPECT_THAT(ProblemsOf(Inspect(Ids(1024))), IsEmpty());
  EXPECT_THAT(ProblemsOf(Inspect(Ids(1025))), ElementsAre(HasSubstr("takes prompts of at most 1024 tokens")));
  EXPECT_THAT(ProblemsOf(Inspect(Ids(4097))), ElementsAre(HasSubstr("give 1 to 4096 token ids")));
}

// Two layers of four heads: attention of T tokens is 32 T^2 bytes, 256 MiB at T = 2896.3.
TEST(InspectionResolve, RefusesMoreThanAFewHundredMebibytes) {
  ModelFacts model = ToyModel();
  model.config.set_max_positions(4096);
  EXPECT_THAT(ProblemsOf(Inspect(Ids(2896) + " dump: 'attn_probs'"), FakeCatalogue({model})), IsEmpty());
  EXPECT_THAT(ProblemsOf(Inspect(Ids(2897) + " dump: 'attn_probs'"), FakeCatalogue({model})),
              ElementsAre(HasSubstr("inspection.dump: make 256.1")));
}

// The hash is that of the message written out by hand, by another implementation of the canonical walk.
TEST(InspectionResolve, AResolvedSpecKeepsItsHash) {
  EXPECT_EQ(Resolved(Inspect("token_ids { ids: [1, 4, 9] } dump: ['q_rot', 'logits']")).spec_hash,
            "548b7513d837d1cf0b56016b2167cc60929308955370dd5d138dfbad98e072f7");
}

TEST(InspectionPlan, IsOneTaskWhoseFileIsTheResult) {
  const ResolvedExperiment experiment =
      Resolved(Inspect("token_ids { ids: [1, 4, 9] } dump: ['q_rot', 'logits']"));
  const Context context = ContextOf({ToyModel()});
  FakeReadings readings;
  const StagePlan plan = PlanOf(experiment, context, 1, readings);
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].model, "toy");
  EXPECT_THAT(plan[0].measurement.inspection().token_ids().ids(), ElementsAre(1, 4, 9));
  EXPECT_THAT(plan[0].measurement.inspection().dump(), ElementsAre("logits", "q_rot"));
  EXPECT_EQ(plan[0].measurement.model().dtype(), v1::Dtype::FLOAT32);
  readings.Add(
      1, plan[0].measurement,
      {FromText<v1::Reading>("inspected { artifact: 'tensors.safetensors' tensors: ['logits', 'q_rot'] } "
                             "artifacts { name: 'tensors.safetensors' sha256: 'abc' bytes: 99 }")});
  const auto results = FindKind("inspection")->experiment->Reduce(experiment.resolved, context, readings);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(results->tables, IsEmpty());
  ASSERT_EQ(results->artifacts.size(), 1u);
  EXPECT_EQ(results->artifacts[0].name(), "tensors.safetensors");
  EXPECT_EQ(results->artifacts[0].sha256(), "abc");
}

TEST(InspectionPlan, LowRankEditsAreHandedOverWithTheirHeadsInOrder) {
  FakeReadings none;
  const StagePlan plan = PlanOf(Resolved(Edited("rank: 2 heads { " + kTwoHeads +
                                                " } } } interventions { low_rank { rank: 16 matrices: "
                                                "KEY heads { list { head { layer: 0 head: 3 } } }")),
                                ContextOf({ToyModel()}), 1, none);
  ASSERT_EQ(plan.size(), 1u);
  const v1::InspectionTensors& tensors = plan[0].measurement.inspection();
  EXPECT_EQ(
      tensors.DebugString(),
      FromText<v1::InspectionTensors>(
          "token_ids { ids: 1 } dump: 'logits' interventions { low_rank { heads { list { head { layer: 0 "
          "head: 1 } head { layer: 1 head: 3 } } } rank: 2 matrices: [QUERY, KEY] } } interventions { "
          "low_rank { heads { list { head { layer: 0 head: 3 } } } rank: 16 matrices: KEY } }")
          .DebugString());
}

TEST(InspectionResolve, WritesOutWhatAnEditLeavesOut) {
  const std::string heads = "heads { list { head { layer: 0 head: 1 } } } ";
  EXPECT_EQ(
      Resolved(Inspect("token_ids { ids: 1 } interventions { zero_head { " + heads +
                       "} } interventions { zero_dims { " + heads +
                       "dims: [4, 0] } } interventions { unrotate { " + heads +
                       "pairs: 2 position_range { first: 0 last: 0 } } } interventions { scale_dims { " +
                       heads + "dims: 1 factor: 0.5 stage: POST_ROPE } }"))
          .resolved.inspection()
          .DebugString(),
      FromText<v1::Inspection>(
          "token_ids { ids: 1 } dump: 'logits' interventions { zero_head { " + heads +
          "positions: ALL } } interventions { zero_dims { " + heads +
          "dims: [0, 4] target: QUERY stage: PRE_ROPE positions: ALL } } interventions { unrotate { " +
          heads + "pairs: 2 position_range { first: 0 last: 0 } } } interventions { scale_dims { " + heads +
          "dims: 1 factor: 0.5 target: QUERY stage: POST_ROPE positions: ALL } }")
          .DebugString());
}

TEST(InspectionResolve, RefusesEditsWithTheirFieldsPath) {
  const std::string heads = "heads { list { head { layer: 0 head: 1 } } } ";
  const std::pair<std::string, const char*> refusals[] = {
      {"zero_head {}", "zero_head.heads: an inspection names its heads"},
      {"zero_head { heads { list { head { layer: 0 head: 4 } } } }",
       "zero_head.heads.list.head[0]: model toy has layers 0 to 1"},
      {"zero_head { " + heads + "positions: QUESTION }", "zero_head.positions: token ids have no question"},
      {"zero_head { " + heads + "position_range { first: 0 last: 2 } }",
       "zero_head.position_range: a range ascends within the prompt's positions, 0 to 1"},
      {"zero_head { " + heads + "position_range { first: 1 last: 0 } }",
       "zero_head.position_range: a range ascends"},
      {"zero_head { " + heads + "position_range { last: 0 } }",
       "zero_head.position_range: a range has a first"},
      {"zero_head { " + heads + "positions: ALL position_range { first: 0 last: 1 } }",
       "zero_head.position_range: excludes positions"},
      {"zero_dims { " + heads + "}", "zero_dims.dims: name at least one dimension"},
      {"zero_dims { " + heads + "dims: [0, 16] }",
       "zero_dims.dims[1]: heads of model toy have dimensions 0 to 15"},
      {"zero_dims { " + heads + "dims: [3, 3] }",
       "zero_dims.dims[1]: is named twice; name each dimension once"},
      {"unrotate { " + heads + "pairs: 0 }", "unrotate.pairs[0]: heads of model toy have pairs 1 to 8"},
      {"unrotate { " + heads + "pairs: 9 }", "unrotate.pairs[0]: heads of model toy have pairs 1 to 8"},
      {"unrotate { " + heads + "}", "unrotate.pairs: name at least one pair"},
      {"scale_dims { " + heads + "dims: 1 }", "scale_dims.factor: say what the dimensions are multiplied by"},
      {"scale_dims { " + heads + "dims: 1 factor: 1e39 }", "scale_dims.factor: is beyond fp32"},
  };
  for (const auto& [edit, problem] : refusals) {
    EXPECT_THAT(ProblemsOf(Inspect("token_ids { ids: [1, 2] } interventions { " + edit + " }")),
                ElementsAre(HasSubstr(std::string("inspection.interventions[0].") + problem)))
        << edit;
  }
}

TEST(InspectionPlan, HeadsOfEveryEditAreHandedOverAscendingWithoutOffsets) {
  FakeReadings none;
  const StagePlan plan = PlanOf(Resolved(Inspect("token_ids { ids: 1 } interventions { unrotate { heads { " +
                                                 kTwoHeads + " } pairs: 3 } }")),
                                ContextOf({ToyModel()}), 1, none);
  EXPECT_EQ(
      plan[0].measurement.inspection().interventions(0).DebugString(),
      FromText<v1::Intervention>("unrotate { heads { list { head { layer: 0 head: 1 } head { layer: 1 head: "
                                 "3 } } } pairs: 3 positions: ALL }")
          .DebugString());
}

// Query heads 2 and 3 of a layer share their key: one edit may name both, two edits must not.
TEST(InspectionResolve, AProjectionIsReplacedOnce) {
  const auto edit = [](const std::string& head, const std::string& matrix) {
    return "interventions { low_rank { rank: 2 heads { list { " + head + " } } matrices: " + matrix + " } } ";
  };
  const std::string two = "head { layer: 0 head: 2 }", three = "head { layer: 0 head: 3 }";
  const std::string ids = "token_ids { ids: 1 } ";
  EXPECT_THAT(ProblemsOf(Inspect(ids + edit(two + three, "[QUERY, KEY]"))), IsEmpty());
  EXPECT_THAT(ProblemsOf(Inspect(ids + edit(two, "QUERY") + edit(three, "QUERY") + edit(two, "KEY"))),
              IsEmpty());
  EXPECT_THAT(
      ProblemsOf(Inspect(ids + edit(two, "[QUERY, KEY]") + edit(three, "KEY"))),
      ElementsAre("inspection.interventions[1].low_rank: its key projection is replaced by interventions[0] "
                  "already; name it in one of them"));
  EXPECT_THAT(ProblemsOf(Inspect(ids + edit(two, "QUERY") + edit(two, "QUERY"))),
              ElementsAre(HasSubstr("its query projection is replaced by interventions[0]")));
}

}  // namespace
}  // namespace ropelab::experiments
