#include "worker/model/weight_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace ropelab::model {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

formats::ModelConfig Small() {
  formats::ModelConfig config;
  config.layers = 1;
  config.query_heads = 4;
  config.kv_heads = 2;
  config.head_dim = 6;
  config.hidden_size = 16;
  config.intermediate_size = 20;
  config.vocabulary = 30;
  config.sliding_window = {0};
  return config;
}

struct Slots {
  Weights weights;
  std::vector<WeightSlot> slots;
  std::map<std::string, std::vector<int64_t>> shapes;  // by name
};

Slots SlotsOf(const formats::ModelConfig& config, std::string_view family) {
  Slots result;
  result.slots = WeightSlots(config, formats::FindFamily(family)->names, &result.weights);
  for (const WeightSlot& slot : result.slots) result.shapes[slot.name] = slot.shape;
  return result;
}

// The name on disk of what ends in `place`.
std::string NameOf(const Slots& slots, const at::Tensor* place) {
  for (const WeightSlot& slot : slots.slots) {
    if (slot.place == place) return slot.name;
  }
  return "";
}

TEST(WeightSlots, OfLlamaHaveTwoNormsALayer) {
  const Slots slots = SlotsOf(Small(), "llama");
  EXPECT_EQ(slots.slots.size(), 12u);
  EXPECT_THAT(slots.shapes,
              IsSupersetOf({Pair("lm_head.weight", ElementsAre(30, 16)),
                            Pair("model.layers.0.self_attn.o_proj.weight", ElementsAre(16, 24)),
                            Pair("model.layers.0.self_attn.k_proj.weight", ElementsAre(12, 16))}));
  EXPECT_EQ(NameOf(slots, &slots.weights.layers[0].mlp_norm),
            "model.layers.0.post_attention_layernorm.weight");
}

TEST(WeightSlots, OfATiedModelLeaveTheHeadOut) {
  formats::ModelConfig config = Small();
  config.tied_embeddings = true;
  EXPECT_THAT(SlotsOf(config, "gemma").shapes, Not(Contains(Key("lm_head.weight"))));
}

TEST(WeightSlots, OfQwen2HaveBiasesOnThreeProjections) {
  formats::ModelConfig config = Small();
  config.qkv_bias = true;
  const Slots slots = SlotsOf(config, "qwen2");
  EXPECT_THAT(slots.shapes, IsSupersetOf({Pair("model.layers.0.self_attn.q_proj.bias", ElementsAre(24)),
                                          Pair("model.layers.0.self_attn.v_proj.bias", ElementsAre(12))}));
  EXPECT_THAT(slots.shapes, Not(Contains(Key("model.layers.0.self_attn.o_proj.bias"))));
}

TEST(WeightSlots, OfQwen3NormEachHead) {
  formats::ModelConfig config = Small();
  config.query_key_norm = formats::QueryKeyNorm::kPerHead;
  EXPECT_THAT(SlotsOf(config, "qwen3").shapes,
              IsSupersetOf({Pair("model.layers.0.self_attn.q_norm.weight", ElementsAre(6)),
                            Pair("model.layers.0.self_attn.k_norm.weight", ElementsAre(6))}));
}

TEST(WeightSlots, OfOlmo2NormOutputsAndAllHeads) {
  formats::ModelConfig config = Small();
  config.query_key_norm = formats::QueryKeyNorm::kAllHeads;
  config.norm_placement = formats::NormPlacement::kAfter;
  const Slots slots = SlotsOf(config, "olmo2");
  EXPECT_THAT(slots.shapes, IsSupersetOf({Pair("model.layers.0.self_attn.q_norm.weight", ElementsAre(24)),
                                          Pair("model.layers.0.self_attn.k_norm.weight", ElementsAre(12))}));
  EXPECT_THAT(slots.shapes, Not(Contains(Key("model.layers.0.input_layernorm.weight"))));
  const LayerWeights& layer = slots.weights.layers[0];
  EXPECT_EQ(NameOf(slots, &layer.attention_out_norm), "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(NameOf(slots, &layer.mlp_out_norm), "model.layers.0.post_feedforward_layernorm.weight");
  EXPECT_EQ(NameOf(slots, &layer.mlp_norm), "");
}

TEST(WeightSlots, OfGemma2GiveEachOfFourNormsItsPlace) {
  formats::ModelConfig config = Small();
  config.norm_placement = formats::NormPlacement::kBeforeAndAfter;
  const Slots slots = SlotsOf(config, "gemma2");
  const LayerWeights& layer = slots.weights.layers[0];
  EXPECT_EQ(NameOf(slots, &layer.attention_norm), "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(NameOf(slots, &layer.attention_out_norm), "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(NameOf(slots, &layer.mlp_norm), "model.layers.0.pre_feedforward_layernorm.weight");
  EXPECT_EQ(NameOf(slots, &layer.mlp_out_norm), "model.layers.0.post_feedforward_layernorm.weight");
}

}  // namespace
}  // namespace ropelab::model
