// What EXPERIMENTS.md 9 says of edits that coincide, bit for bit. Their numbers are held against numpy in
// tests/e2e/interventions_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/edited_model.h"

namespace ropelab::engine {
namespace {

using testing::HasSubstr;

const std::vector<int32_t> kAllDims = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
const std::vector<int32_t> kTwoPairs = {1, 4, 7, 10};  // head_dim 12: dims j and j + 6 are a pair
constexpr EditTarget kTargets[] = {EditTarget::kQuery, EditTarget::kKey, EditTarget::kBoth};
constexpr EditStage kStages[] = {EditStage::kProjection, EditStage::kPreRope, EditStage::kPostRope};

bool Same(const Shown& a, const Shown& b) {
  if (a.residuals.size() != b.residuals.size()) return false;
  for (size_t i = 0; i < a.residuals.size(); ++i) {
    if (!at::equal(a.residuals[i], b.residuals[i])) return false;
  }
  return at::equal(a.logits, b.logits) && at::equal(a.probabilities, b.probabilities);
}

class HeadEditsOfDtypes : public testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, HeadEditsOfDtypes, testing::Values(at::kFloat, at::kBFloat16, at::kHalf));

TEST_P(HeadEditsOfDtypes, AKnockoutIsTheHeadsColumnsOfTheOutputProjectionZeroed) {
  const std::vector<int32_t> ids = EditedPrompt(150);
  for (const auto& config : {EditedConfig(), NormedConfig()}) {
    const model::LoadedModel model = MadeModel(config, GetParam());
    model::LoadedModel other = model;
    for (const auto& [layer, head] : std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {3, 0}}) {
      at::Tensor& output = other.weights.layers[layer].output;
      output = output.clone();
      output.narrow(1, head * config.head_dim, config.head_dim).zero_();
    }
    const Shown edited = PassUnder(model, ids, {ZeroHeadEdit(1, 2), ZeroHeadEdit(3, 0)});
    const Shown expected = PassUnder(other, ids, {});
    EXPECT_TRUE(Same(edited, expected));
    EXPECT_FALSE(Same(edited, PassUnder(model, ids, {})));
    // Its own probabilities stay.
    EXPECT_TRUE(at::equal(edited.probabilities[1], PassUnder(model, ids, {}).probabilities[1]));
  }
}

TEST_P(HeadEditsOfDtypes, WhatChangesNothingMovesNoBit) {
  const std::vector<int32_t> ids = EditedPrompt(150);
  const model::LoadedModel model = MadeModel(NormedConfig(), GetParam());
  const Shown plain = PassUnder(model, ids, {});
  for (const EditStage stage : kStages) {
    for (const EditTarget target : kTargets) {
      EXPECT_TRUE(Same(PassUnder(model, ids, {ScaleEdit(1, 2, {}, 0, target, stage)}), plain));
      EXPECT_TRUE(Same(PassUnder(model, ids, {ScaleEdit(1, 2, kAllDims, 1, target, stage)}), plain));
      EXPECT_TRUE(
          Same(PassUnder(model, ids, {From(ScaleEdit(1, 2, kAllDims, 0, target, stage), 150)}), plain));
    }
  }
  EXPECT_TRUE(Same(PassUnder(model, ids, {UnrotateEdit(1, 2, {})}), plain));
  EXPECT_TRUE(Same(PassUnder(model, ids, {From(UnrotateEdit(1, 2, {0, 3}), 150)}), plain));
  EXPECT_TRUE(Same(PassUnder(model, ids, {From(ZeroHeadEdit(1, 2), 150)}), plain));
}

TEST(HeadEdits, AHeadWithoutAnyQueryDimensionIsUniformOverTheKeysItSees) {
  const std::vector<int32_t> ids = EditedPrompt(100);
  for (const auto& config : {EditedConfig(), NormedConfig()}) {
    const model::LoadedModel model = MadeModel(config);
    for (const EditStage stage : kStages) {
      const Shown shown = PassUnder(model, ids,
                                    {ScaleEdit(1, 2, kAllDims, 0, EditTarget::kQuery, stage),
                                     ScaleEdit(2, 1, kAllDims, 0, EditTarget::kQuery, stage)});
      for (const auto& [layer, head] : std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {2, 1}}) {
        const int64_t window = config.sliding_window[layer] == 0 ? 100 : config.sliding_window[layer];
        for (int64_t i = 0; i < 100; ++i) {
          for (int64_t j = 0; j < 100; ++j) {
            const bool seen = j <= i && i - j < window;
            const double uniform = seen ? 1.0 / static_cast<double>(std::min(i + 1, window)) : 0;
            ASSERT_NEAR(shown.probabilities[layer][head][i][j].item<float>(), uniform, 1e-6) << i << "," << j;
          }
        }
      }
    }
  }
}

TEST_P(HeadEditsOfDtypes, WholePairsZeroedBeforeAndAfterRopeCoincide) {
  const std::vector<int32_t> ids = EditedPrompt(150);
  for (const EditTarget target : kTargets) {
    const auto under = [&](const formats::ModelConfig& config, EditStage stage, std::vector<int32_t> dims) {
      return PassUnder(MadeModel(config, GetParam()), ids,
                       {ScaleEdit(0, 1, dims, 0, target, stage), ScaleEdit(2, 3, dims, 0, target, stage)});
    };
    const Shown pre = under(EditedConfig(), EditStage::kPreRope, kTwoPairs);
    EXPECT_TRUE(Same(pre, under(EditedConfig(), EditStage::kPostRope, kTwoPairs)));
    EXPECT_TRUE(Same(pre, under(EditedConfig(), EditStage::kProjection, kTwoPairs)));
    const Shown normed = under(NormedConfig(), EditStage::kPreRope, kTwoPairs);
    EXPECT_TRUE(Same(normed, under(NormedConfig(), EditStage::kPostRope, kTwoPairs)));
    EXPECT_FALSE(Same(normed, under(NormedConfig(), EditStage::kProjection, kTwoPairs)));
    // Half a pair is turned into the other half.
    EXPECT_FALSE(Same(under(EditedConfig(), EditStage::kPreRope, {1}),
                      under(EditedConfig(), EditStage::kPostRope, {1})));
  }
}

TEST_P(HeadEditsOfDtypes, InMultiHeadAttentionQueryKeyAndBothCoincideForWholePairs) {
  const std::vector<int32_t> ids = EditedPrompt(150);
  for (formats::ModelConfig config : {EditedConfig(), NormedConfig()}) {
    config.kv_heads = config.query_heads;
    const model::LoadedModel model = MadeModel(config, GetParam());
    for (const EditStage stage : {EditStage::kPreRope, EditStage::kPostRope}) {
      const auto under = [&](EditTarget target) {
        return PassUnder(model, ids, {ScaleEdit(1, 2, kTwoPairs, 0, target, stage)});
      };
      const Shown query = under(EditTarget::kQuery);
      EXPECT_TRUE(Same(query, under(EditTarget::kKey)));
      EXPECT_TRUE(Same(query, under(EditTarget::kBoth)));
      EXPECT_FALSE(Same(query, PassUnder(model, ids, {})));
    }
  }
}

TEST_P(HeadEditsOfDtypes, AfterRopeKeyAndBothAreOneEdit) {
  const std::vector<int32_t> ids = EditedPrompt(150);
  for (const auto& config : {EditedConfig(), NormedConfig()}) {
    const model::LoadedModel model = MadeModel(config, GetParam());
    const auto under = [&](EditTarget target) {
      return PassUnder(model, ids, {ScaleEdit(1, 2, {0, 5, 7}, 0, target, EditStage::kPostRope)});
    };
    EXPECT_TRUE(Same(under(EditTarget::kKey), under(EditTarget::kBoth)));
    EXPECT_FALSE(Same(under(EditTarget::kKey), under(EditTarget::kQuery)));  // heads 2 and 3 share their key
  }
}

TEST(HeadEdits, AKeyEditHitsItsGroupOnceHoweverManyOfItsHeadsAreNamed) {
  const std::vector<int32_t> ids = EditedPrompt(150);
  const model::LoadedModel model = MadeModel(NormedConfig());
  for (const EditStage stage : kStages) {
    const auto key = [&](int64_t head) { return ScaleEdit(1, head, {0, 3}, 3, EditTarget::kKey, stage); };
    const Shown once = PassUnder(model, ids, {key(2)});
    EXPECT_TRUE(Same(once, PassUnder(model, ids, {key(3)})));
    EXPECT_TRUE(Same(once, PassUnder(model, ids, {key(2), key(3)})));
    // One head that is named twice is scaled twice, as its query would be.
    const Shown twice =
        PassUnder(model, ids, {ScaleEdit(1, 2, {0, 3}, 9, EditTarget::kKey, EditStage::kPostRope)});
    if (stage != EditStage::kPostRope) continue;
    EXPECT_LT((PassUnder(model, ids, {key(2), key(2)}).logits - twice.logits).abs().max().item<float>(),
              1e-4);
  }
}

TEST(HeadEdits, EditsOfOneStageAreAppliedInTheirOrder) {
  const std::vector<int32_t> ids = EditedPrompt(40);
  const model::LoadedModel model = MadeModel(EditedConfig());
  // A power of two is exact, so that twice a half is the model as it is.
  EXPECT_TRUE(Same(PassUnder(model, ids, {ScaleEdit(1, 2, {3}, 2), ScaleEdit(1, 2, {3}, 0.5)}),
                   PassUnder(model, ids, {})));
  EXPECT_TRUE(Same(PassUnder(model, ids, {ScaleEdit(1, 2, {3}, 2), ScaleEdit(1, 2, {3}, 0)}),
                   PassUnder(model, ids, {ScaleEdit(1, 2, {3}, 0)})));
}

TEST(HeadEdits, AnUnrotatedHeadLeavesTheOthersOfItsGroupAsTheyAre) {
  const std::vector<int32_t> ids = EditedPrompt(150);
  const model::LoadedModel model = MadeModel(NormedConfig());
  const Shown plain = PassUnder(model, ids, {}), edited = PassUnder(model, ids, {UnrotateEdit(1, 2, {0, 3})});
  for (int64_t head = 0; head < 4; ++head) {
    EXPECT_EQ(at::equal(plain.probabilities[1][head], edited.probabilities[1][head]), head != 2) << head;
  }
}

// Position 0 is turned by nothing, and its key alone is seen by row 0; a whole head without RoPE is one of
// constant angle.
TEST(HeadEdits, AHeadWithAllPairsUnrotatedHasTheLogitsOfItsPlainVectors) {
  const std::vector<int32_t> ids = EditedPrompt(30);
  model::LoadedModel model = MadeModel(EditedConfig());
  struct Projections : Observer {
    void Projected(const ProjectedRows& rows) override {
      if (rows.layer == 2) query = rows.query_pre.clone(), key = rows.key_pre.clone();
    }
    at::Tensor query, key;
  } projections;
  ASSERT_TRUE(Forward(model, ids, {}, projections).ok());
  const Shown shown = PassUnder(model, ids, {UnrotateEdit(2, 1, {0, 1, 2, 3, 4, 5})});
  at::Tensor logits = at::matmul(projections.query.select(1, 1).to(at::kDouble),
                                 projections.key.select(1, 0).to(at::kDouble).t()) *
                      model.config.attention_scale;
  logits = logits.masked_fill(at::ones({30, 30}, at::kBool).triu(1), -INFINITY);
  EXPECT_LT((at::softmax(logits, 1) - shown.probabilities[2][1]).abs().max().item<double>(), 1e-5);
}

TEST(HeadEdits, WhatLiesBeforeAnEditsPositionsAndLayersIsAsItWas) {
  const std::vector<int32_t> ids = EditedPrompt(150);
  const model::LoadedModel model = MadeModel(NormedConfig());
  const Shown plain = PassUnder(model, ids, {});
  const HeadEdits edits = {From(ZeroHeadEdit(1, 0), 70),
                           From(ScaleEdit(2, 1, {0, 1}, -2, EditTarget::kBoth, EditStage::kProjection), 70),
                           From(UnrotateEdit(2, 3, {1}), 70)};
  const Shown edited = PassUnder(model, ids, edits);
  EXPECT_TRUE(at::equal(edited.logits.narrow(0, 0, 70), plain.logits.narrow(0, 0, 70)));
  EXPECT_FALSE(at::equal(edited.logits[70], plain.logits[70]));
  EXPECT_EQ(FirstEditedLayer(edits, model.config), 1);
  const Shown from = PassUnder(model, ids, edits, nullptr, LayerInput{1, plain.residuals[1]});
  EXPECT_TRUE(at::equal(from.logits, edited.logits));
}

TEST(HeadEdits, APassRefusesEditsThatAreNotInTheModel) {
  const model::LoadedModel model = MadeModel(EditedConfig());
  const std::vector<int32_t> ids = EditedPrompt(5);
  Observer nobody;
  const auto refusal = [&](const HeadEdit& edit) {
    const HeadEdits edits = {ZeroHeadEdit(0, 0), edit};
    ForwardOptions options;
    options.head_edits = &edits;
    const absl::Status status = Forward(model, ids, options, nobody).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(ZeroHeadEdit(4, 0)), HasSubstr("edit 1: L4H0: the model has layers 0 to 3"));
  EXPECT_THAT(refusal(ZeroHeadEdit(0, 4)), HasSubstr("L0H4"));
  EXPECT_THAT(refusal(ScaleEdit(0, 0, {12}, 0)), HasSubstr("dim 12: there are 0 to 11"));
  EXPECT_THAT(refusal(UnrotateEdit(0, 0, {6})), HasSubstr("pair 6: there are 0 to 5"));
  EXPECT_THAT(refusal(ScaleEdit(0, 0, {2, 1}, 0)), HasSubstr("1 follows 2"));
  EXPECT_THAT(refusal(ScaleEdit(0, 0, {1}, INFINITY)), HasSubstr("not finite"));
  HeadEdit backwards = From(ZeroHeadEdit(0, 0), 5);
  backwards.last_position = 4;
  EXPECT_THAT(refusal(backwards), HasSubstr("positions 5 to 4"));
}

}  // namespace
}  // namespace ropelab::engine
