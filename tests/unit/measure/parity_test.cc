#include "worker/measure/parity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/engine/fixtures.h"
#include "worker/measure/parity_facts.h"
#include "worker/measure/parity_frequencies.h"
#include "worker/measure/parity_plain.h"

namespace ropelab::measure {
namespace {

using engine::Distance;
using engine::ExpectedTensors;
using engine::Ids;
using engine::LoadFixture;
using ::testing::HasSubstr;

TEST(AbsoluteDistance, NamesThePlaceOfTheLargest) {
  at::Tensor got = at::zeros({2, 3, 4}), wanted = at::zeros({2, 3, 4});
  got[1][2][3] = -0.5;
  got[0][1][2] = 0.25;
  const Worst worst = AbsoluteDistance(got, wanted, {"layer", "head", "row"}, "64 tokens");
  EXPECT_EQ(worst.value, 0.5);
  EXPECT_EQ(worst.where, "64 tokens, layer 1, head 2, row 3");
}

TEST(AbsoluteDistance, OfNoNumberAndOfOtherShapesIsLarge) {
  at::Tensor got = at::zeros({2}), wanted = at::zeros({2});
  got[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_GT(AbsoluteDistance(got, wanted, {"row"}, "").value, 1e300);
  const Worst worst = AbsoluteDistance(at::zeros({3}), wanted, {"row"}, "");
  EXPECT_GT(worst.value, 1e300);
  EXPECT_EQ(worst.where, "shape [3], wanted [2]");
}

TEST(RelativeDistance, IsInUnitsOfTheRowsLargestEntry) {
  const at::Tensor wanted = at::tensor({1000.0, 0.0, 2.0, 1.0}, at::kDouble).view({2, 2});
  at::Tensor got = wanted.clone();
  got[0][1] += 1.0;  // a thousandth of its row
  got[1][1] += 0.5;  // a quarter of its row
  const Worst worst = RelativeDistance(got, wanted, {"row", "column"}, "");
  EXPECT_DOUBLE_EQ(worst.value, 0.25);
  EXPECT_EQ(worst.where, "row 1, column 1");
}

TEST(RelativeDistance, OfZerosFromZerosIsZero) {
  EXPECT_EQ(RelativeDistance(at::zeros({2, 2}), at::zeros({2, 2}), {"row", "column"}, "").value, 0);
}

TEST(FactList, PassesOnlyWhenEveryFactDoes) {
  int told = 0;
  FactList facts([&](const v1::VerifiedFact&) { ++told; });
  facts.Bounded("a", {1.0, "here"}, 1.0, "absolute");
  facts.Reported("b", {1e9, "there"}, "absolute");
  facts.Bounded("c", {1.0, "here"}, 0.999, "absolute");
  const v1::Verification verification = facts.Take("cpu float32");
  EXPECT_EQ(told, 3);
  EXPECT_FALSE(verification.passed());
  EXPECT_TRUE(verification.facts(0).passed());
  EXPECT_TRUE(verification.facts(1).passed());
  EXPECT_LT(verification.facts(1).bound(), 0);
  EXPECT_FALSE(verification.facts(2).passed());
}

// By hand: theta 10000, D 4, so the frequencies are 1 and 0.01.
TEST(PlainFrequencies, FollowTheFormulas) {
  formats::ModelConfig config;
  config.head_dim = 4;
  config.rope_theta = 10000;
  EXPECT_NEAR(PlainFrequencies(config, 1)[1], 0.01, 1e-15);
  config.rope_scaling.kind = formats::RopeScalingKind::kLinear;
  config.rope_scaling.factor = 4;
  EXPECT_NEAR(PlainFrequencies(config, 1)[0], 0.25, 1e-15);
  // 8192 positions are 8192 * 0.01 / 2 pi = 13 turns of the slow pair: above high_freq_factor, kept; with 100
  // positions 0.159 turns: below low_freq_factor, slowed by the factor; with 1000, 1.5915 turns: between 1
  // and 4, 0.19718 of it kept: 0.01 (0.19718 + 0.80282 / 8) = 0.0029753.
  config.rope_scaling = {};
  config.rope_scaling.kind = formats::RopeScalingKind::kLlama3;
  config.rope_scaling.factor = 8;
  config.rope_scaling.original_max_positions = 8192;
  EXPECT_NEAR(PlainFrequencies(config, 1)[1], 0.01, 1e-15);
  config.rope_scaling.original_max_positions = 100;
  EXPECT_NEAR(PlainFrequencies(config, 1)[1], 0.00125, 1e-15);
  config.rope_scaling.original_max_positions = 1000;
  EXPECT_NEAR(PlainFrequencies(config, 1)[1], 0.0029753, 1e-7);
  // Twice the original length at factor 2: theta times (2 * 2 - 1)^(4/2) = 90000, so 90000^(-1/2).
  config.rope_scaling = {};
  config.rope_scaling.kind = formats::RopeScalingKind::kDynamic;
  config.rope_scaling.factor = 2;
  config.rope_scaling.original_max_positions = 100;
  EXPECT_NEAR(PlainFrequencies(config, 100)[1], 0.01, 1e-15);
  EXPECT_NEAR(PlainFrequencies(config, 200)[1], 1.0 / 300, 1e-15);
  config.rope_scaling = {};
  config.rope_scaling.kind = formats::RopeScalingKind::kLongRope;
  config.rope_scaling.original_max_positions = 100;
  config.rope_scaling.short_factor = {1, 2};
  config.rope_scaling.long_factor = {4, 5};
  EXPECT_NEAR(PlainFrequencies(config, 100)[1], 0.005, 1e-15);
  EXPECT_NEAR(PlainFrequencies(config, 101)[1], 0.002, 1e-15);
}

class PlainDecoder : public ::testing::TestWithParam<const char*> {};

// Another implementation's tensors, so that what the gate compares with is itself held to something.
TEST_P(PlainDecoder, AgreesWithTheReference) {
  ROPELAB_NEED_FIXTURE(GetParam());
  const auto model = LoadFixture(GetParam());
  const auto expected = ExpectedTensors(GetParam());
  at::NoGradGuard no_gradients;
  at::Tensor hidden = PlainEmbedding(*model, Ids(expected.at("input_ids")));
  EXPECT_LT(Distance(hidden, expected.at("hidden")[0]), 2e-4);
  for (int64_t layer = 0; layer < model->config.layers; ++layer) {
    const PlainLayer plain = RunPlainLayer(*model, layer, hidden);
    EXPECT_LT(Distance(plain.scores, expected.at("attn_probs")[layer]), 5e-5) << layer;
    EXPECT_LT(Distance(plain.query_pre, expected.at("q_pre")[layer]), 2e-4) << layer;
    EXPECT_LT(Distance(plain.key_rot, expected.at("k_rot")[layer]), 2e-4) << layer;
    EXPECT_LT(Distance(plain.output, expected.at("hidden")[layer + 1]), 2e-4) << layer;
    hidden = plain.output;
  }
  EXPECT_LT(Distance(PlainLogits(*model, hidden), expected.at("logits")), 2e-4);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, PlainDecoder,
                         ::testing::Values("llama2_a", "llama3_a", "llama3bf16_a", "mistral_a", "qwen2_a",
                                           "qwen2f16_a", "qwen3_a", "gemma_a", "gemma2_a", "olmo2_a",
                                           "stories260K"));

TEST(VerifyParity, SaysWhatTheLoaderSays) {
  const auto verification =
      VerifyParity({.directory = "/nowhere/model", .prompt_tokens = {8}}, [](const v1::VerifiedFact&) {});
  ASSERT_FALSE(verification.ok());
  EXPECT_THAT(std::string(verification.status().message()), HasSubstr("/nowhere/model"));
}

TEST(VerifyParity, HoldsOnAReferenceCheckpoint) {
  ROPELAB_NEED_FIXTURE("llama3_a");
  const auto verification =
      VerifyParity({.directory = engine::FixtureModel("llama3_a"), .prompt_tokens = {16, 70}},
                   [](const v1::VerifiedFact&) {});
  ASSERT_TRUE(verification.ok()) << verification.status();
  for (const v1::VerifiedFact& fact : verification->facts())
    EXPECT_TRUE(fact.passed()) << fact.ShortDebugString();
  EXPECT_TRUE(verification->passed());
}

}  // namespace
}  // namespace ropelab::measure
