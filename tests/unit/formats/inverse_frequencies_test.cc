// Bit for bit the values of PyTorch 1.13's fp32 operations (scalar kernels), computed once in Python from the
// published formulas. PyTorch's vectorised pow differs from its own scalar one in the last places.
#include <gtest/gtest.h>

#include <vector>

#include "worker/formats/model_config.h"

namespace ropelab::formats {
namespace {

ModelConfig Rope(int64_t head_dim, double theta) {
  ModelConfig config;
  config.head_dim = head_dim;
  config.rope_theta = theta;
  return config;
}

ModelConfig Scaled(int64_t head_dim, double theta, RopeScalingKind kind, double factor,
                   int64_t original = 0) {
  ModelConfig config = Rope(head_dim, theta);
  config.rope_scaling.kind = kind;
  config.rope_scaling.factor = factor;
  config.rope_scaling.original_max_positions = original;
  return config;
}

void ExpectBits(const std::vector<double>& computed, const std::vector<float>& torch) {
  ASSERT_EQ(computed.size(), torch.size());
  for (size_t pair = 0; pair < torch.size(); ++pair) {
    EXPECT_EQ(computed[pair], static_cast<double>(torch[pair])) << "pair " << pair;
  }
}

const std::vector<float> kPlain = {1.0f,           0.316227764f,   0.100000001f,   0.0316227786f,
                                   0.00999999978f, 0.00316227786f, 0.00100000005f, 0.000316227786f};

TEST(InverseFrequencies, AreThoseOfPyTorchInFloat32) {
  ExpectBits(InverseFrequencies(Rope(16, 1e4)), kPlain);
}

TEST(InverseFrequencies, AreDividedAsLinearSays) {
  ExpectBits(InverseFrequencies(Scaled(16, 1e4, RopeScalingKind::kLinear, 2.7)),
             {0.370370358f, 0.117121391f, 0.0370370373f, 0.0117121404f, 0.00370370364f, 0.00117121404f,
              0.00037037037f, 0.000117121403f});
}

TEST(InverseFrequencies, AreScaledAsLlama3Says) {
  ModelConfig config = Scaled(16, 5e5, RopeScalingKind::kLlama3, 8.0, 64);
  ExpectBits(InverseFrequencies(config),
             {1.0f, 0.079403013f, 0.00470075384f, 0.000911583134f, 0.000176776681f, 3.42810235e-05f,
              6.64786967e-06f, 1.28917316e-06f});
}

TEST(InverseFrequencies, BlendTheMiddleBandOfLlama31) {
  const std::vector<double> frequencies =
      InverseFrequencies(Scaled(128, 5e5, RopeScalingKind::kLlama3, 8.0, 8192));
  // Pairs 28 to 36: the last one kept, the blended ones, the first two divided by 8.
  ExpectBits({frequencies.begin() + 28, frequencies.begin() + 37},
             {0.00321144611f, 0.00216657063f, 0.00137189368f, 0.00085675146f, 0.000524846022f, 0.00031269365f,
              0.000178507791f, 9.55621217e-05f, 7.78465546e-05f});
}

TEST(InverseFrequencies, OfDynamicStretchOnlyBeyondTheModelsLength) {
  const ModelConfig config = Scaled(16, 1e4, RopeScalingKind::kDynamic, 2.7, 512);
  ExpectBits(InverseFrequencies(config, 5), kPlain);
  ExpectBits(InverseFrequencies(config, 512), kPlain);
  ExpectBits(InverseFrequencies(config, 513),
             {1.0f, 0.315990269f, 0.0998498425f, 0.0315515772f, 0.0099699907f, 0.00315042003f,
              0.000995501992f, 0.000314568955f});
  ExpectBits(InverseFrequencies(config, 4000),
             {1.0f, 0.207037181f, 0.042864386f, 0.00887452159f, 0.0018373559f, 0.000380400947f,
              7.87571335e-05f, 1.63056538e-05f});
}

TEST(InverseFrequencies, OfYarnKeepFastPairsAndStretchSlowOnes) {
  ModelConfig config = Scaled(24, 1e4, RopeScalingKind::kYarn, 4.0, 64);
  ExpectBits(InverseFrequencies(config),
             {1.0f, 0.377129108f, 0.134652153f, 0.043750003f, 0.011603971f, 0.00538608711f, 0.00249999994f,
              0.00116039743f, 0.000538608583f, 0.000250000012f, 0.000116039737f, 5.38608547e-05f});
  config.rope_scaling.truncate = false;
  ExpectBits(InverseFrequencies(config),
             {1.0f, 0.349040121f, 0.10857667f, 0.0255952496f, 0.011603971f, 0.00538608711f, 0.00249999994f,
              0.00116039743f, 0.000538608583f, 0.000250000012f, 0.000116039737f, 5.38608547e-05f});
}

TEST(InverseFrequencies, OfYarnFollowItsBetas) {
  ModelConfig config = Scaled(24, 1e6, RopeScalingKind::kYarn, 40.0, 4096);
  config.rope_scaling.beta_fast = 20;
  config.rope_scaling.beta_slow = 2;
  ExpectBits(InverseFrequencies(config), {1.0f, 0.316227764f, 0.099999994f, 0.0316227786f, 0.00674999878f,
                                          0.00110679725f, 2.49999994e-05f, 7.90569629e-06f, 2.49999925e-06f,
                                          7.90569402e-07f, 2.50000085e-07f, 7.90569175e-08f});
}

// Both ends of the ramp fall on pair 0.
TEST(InverseFrequencies, OfYarnDoNotDivideByAnEmptyRamp) {
  ExpectBits(InverseFrequencies(Scaled(8, 1e4, RopeScalingKind::kYarn, 4.0, 6)),
             {1.0f, 0.0250000004f, 0.00249999994f, 0.000250000012f});
}

TEST(InverseFrequencies, OfLongRopeSwitchFactorsBeyondTheOriginalLength) {
  ModelConfig config = Scaled(16, 1e4, RopeScalingKind::kLongRope, 1.0, 128);
  for (int pair = 0; pair < 8; ++pair) {
    config.rope_scaling.short_factor.push_back(1 + 0.01 * pair);
    config.rope_scaling.long_factor.push_back(1 + 0.37 * pair);
  }
  for (const int64_t tokens : {1, 128}) {
    ExpectBits(InverseFrequencies(config, tokens),
               {1.0f, 0.313096821f, 0.0980392173f, 0.0307017285f, 0.00961538497f, 0.00301169325f,
                0.00094339624f, 0.000295539969f});
  }
  for (const int64_t tokens : {129, 4096}) {
    ExpectBits(InverseFrequencies(config, tokens),
               {1.0f, 0.230823174f, 0.0574712642f, 0.014987099f, 0.00403225794f, 0.0011095712f, 0.000310559f,
                8.80857333e-05f});
  }
}

TEST(InverseFrequencies, DependOnTheLengthForTwoKindsAlone) {
  for (const RopeScalingKind kind :
       {RopeScalingKind::kNone, RopeScalingKind::kLinear, RopeScalingKind::kLlama3, RopeScalingKind::kYarn,
        RopeScalingKind::kDynamic, RopeScalingKind::kLongRope}) {
    EXPECT_EQ(FrequenciesDependOnLength(Scaled(16, 1e4, kind, 2.0, 64)),
              kind == RopeScalingKind::kDynamic || kind == RopeScalingKind::kLongRope);
  }
}

}  // namespace
}  // namespace ropelab::formats
