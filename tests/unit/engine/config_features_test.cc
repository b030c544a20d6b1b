// Every feature of a config, through both forward passes, against the plain formulas in double: combinations
// that families have and that no fixture has.
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/engine/plain_model.h"
#include "worker/engine/decode_session.h"
#include "worker/engine/decoder.h"

namespace ropelab::engine {
namespace {

using formats::Activation;
using formats::ModelConfig;
using formats::NormPlacement;
using formats::QueryKeyNorm;
using formats::RopeScalingKind;

constexpr int64_t kTokens = 75;

struct Feature {
  const char* name;
  void (*change)(ModelConfig& config);
};

void PrintTo(const Feature& feature, std::ostream* out) {
  *out << feature.name;
}

const Feature kFeatures[] = {
    {"Plain", [](ModelConfig&) {}},
    {"Biases",
     [](ModelConfig& c) {
       c.qkv_bias = c.output_bias = c.mlp_bias = true;
       c.activation = Activation::kGelu;
     }},
    {"Windows",
     [](ModelConfig& c) {
       c.sliding_window = {9, 0};
     }},
    {"NormPerHead", [](ModelConfig& c) { c.query_key_norm = QueryKeyNorm::kPerHead; }},
    {"NormsAfterAlone",
     [](ModelConfig& c) {
       c.norm_placement = NormPlacement::kAfter;
       c.query_key_norm = QueryKeyNorm::kAllHeads;
       c.norm_rounds_last = true;
     }},
    {"FourNormsAndSoftCaps",
     [](ModelConfig& c) {
       c.norm_placement = NormPlacement::kBeforeAndAfter;
       c.norm_adds_one = true;
       c.embedding_scale = std::sqrt(40.0);
       c.attention_scale = 0.4;
       c.attention_soft_cap = 3;
       c.final_soft_cap = 2;
       c.activation = Activation::kGeluTanh;
       c.tied_embeddings = true;
       c.sliding_window = {16, 0};
     }},
    {"AttentionFactor", [](ModelConfig& c) { c.rope_scaling.attention_factor = 1.3; }},
    {"DynamicRope",
     [](ModelConfig& c) {
       c.rope_scaling.kind = RopeScalingKind::kDynamic;
       c.rope_scaling.factor = 4;
       c.rope_scaling.original_max_positions = 30;
       c.max_positions = 120;
     }},
    {"LongRope",
     [](ModelConfig& c) {
       c.rope_scaling.kind = RopeScalingKind::kLongRope;
       c.rope_scaling.original_max_positions = 30;
       c.rope_scaling.short_factor = {1, 1, 1, 1.1, 1.2, 1.3};
       c.rope_scaling.long_factor = {1, 1.5, 2, 3, 4, 5};
       c.rope_scaling.attention_factor = 1.2;
     }},
};

class ConfigFeatures : public testing::TestWithParam<Feature> {
 protected:
  ConfigFeatures() {
    ModelConfig config = SmallConfig();
    GetParam().change(config);
    model_ = MadeModel(config);
    for (int32_t i = 0; i < kTokens; ++i) ids_.push_back((i * 37 + 11) % 90);
  }
  at::Tensor Whole() {
    ForwardOptions options;
    for (int64_t i = 0; i < kTokens; ++i) options.logit_rows.push_back(i);
    Observer nobody;
    return *Forward(model_, ids_, options, nobody);
  }
  at::Tensor Decoded() {
    DecodeSession session(model_, kTokens);
    std::vector<at::Tensor> rows;
    for (int32_t id : ids_) {
      std::array<int32_t, kDecodeRows> row = {1, 2, 3, 4, 5, id, 6, 7};
      rows.push_back(session.Step(row)[5]);
    }
    return at::stack(rows);
  }
  model::LoadedModel model_;
  std::vector<int32_t> ids_;
};

// Logits in fp32 against the formulas in double. A single position whose attention is nearly torn between two
// keys may be off ten times as far as the others.
void ExpectWithinRounding(const at::Tensor& logits, const at::Tensor& expected) {
  EXPECT_LE((logits.to(at::kDouble) - expected).square().mean().sqrt().item<double>(), 3e-6);
  EXPECT_LE(Distance(logits, expected), 5e-5);
}

TEST_P(ConfigFeatures, APromptsLogitsEqualTheFormulas) {
  const PlainModel plain(model_,
                         [&](int64_t) { return formats::InverseFrequencies(model_.config, kTokens); });
  ExpectWithinRounding(Whole(), plain.Logits(ids_));
}

TEST_P(ConfigFeatures, DecodingEqualsTheFormulasWithEachPositionsOwnFrequencies) {
  const PlainModel plain(
      model_, [&](int64_t position) { return formats::InverseFrequencies(model_.config, position + 1); });
  ExpectWithinRounding(Decoded(), plain.Logits(ids_));
}

TEST_P(ConfigFeatures, DecodingEqualsTheWholePromptWhereLengthDoesNotMatter) {
  const double distance = Distance(Decoded(), Whole());
  if (formats::FrequenciesDependOnLength(model_.config)) {
    EXPECT_GT(distance, 1e-2);  // the prompt is longer than the original context
  } else {
    EXPECT_EQ(distance, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Features, ConfigFeatures, testing::ValuesIn(kFeatures),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ropelab::engine
