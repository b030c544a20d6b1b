// Each family's defaults and traps, from the documented defaults of its Hugging Face class.
#include "worker/formats/families.h"

#include <cmath>

#include "tests/unit/formats/config_text.h"

namespace ropelab::formats {
namespace {

using ::ropelab::unit::ExpectRefused;
using ::ropelab::unit::MinimalConfig;
using ::ropelab::unit::ReadConfigText;
using ::ropelab::unit::ReadWith;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

const char* const kFamilies[] = {"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "olmo2"};

TEST(Families, AreTheSeven) {
  std::vector<std::string_view> names;
  for (const Family& family : Families()) names.push_back(family.model_type);
  EXPECT_THAT(names, ::testing::ElementsAreArray(kFamilies));
}

TEST(Families, HaveThetaTenThousandAndAsManyKvHeadsAsHeadsWhereConfigsAreSilent) {
  for (const char* family : kFamilies) {
    const auto config = ReadWith(family);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->family, family);
    EXPECT_EQ(config->rope_theta, 10000.0) << family;
    EXPECT_EQ(config->kv_heads, 4) << family;
    EXPECT_EQ(config->sliding_window.size(), 4u) << family;
    EXPECT_FALSE(config->qkv_bias && config->output_bias) << family;
    EXPECT_FALSE(config->mlp_bias) << family;
  }
}

TEST(Families, TieEmbeddingsByDefaultInGemmaAlone) {
  for (const char* family : kFamilies) {
    EXPECT_EQ(ReadWith(family)->tied_embeddings, std::string(family).starts_with("gemma")) << family;
    EXPECT_TRUE(ReadWith(family, {{"tie_word_embeddings", true}})->tied_embeddings) << family;
    EXPECT_FALSE(ReadWith(family, {{"tie_word_embeddings", false}})->tied_embeddings) << family;
  }
}

struct Silent {
  const char* family;
  int64_t max_positions;
  double eps;
  int64_t head_dim;  // of hidden 64 and 4 heads
  double scale;
};

TEST(Families, FillWhatConfigsLeaveOut) {
  for (const Silent& silent :
       {Silent{"llama", 2048, 1e-6, 16, 0.25}, Silent{"mistral", 131072, 1e-6, 16, 0.25},
        Silent{"qwen2", 32768, 1e-6, 16, 0.25}, Silent{"qwen3", 32768, 1e-6, 128, 1 / std::sqrt(128.0)},
        Silent{"gemma", 8192, 1e-6, 256, 0.0625}, Silent{"gemma2", 8192, 1e-6, 256, 0.0625},
        Silent{"olmo2", 2048, 1e-5, 16, 0.25}}) {
    // A null says no more than a missing field.
    for (const nlohmann::json& patch : {nlohmann::json::object(), nlohmann::json{{"head_dim", nullptr}}}) {
      const auto config = ReadWith(silent.family, patch);
      ASSERT_TRUE(config.ok()) << config.status();
      EXPECT_EQ(config->max_positions, silent.max_positions) << silent.family;
      EXPECT_EQ(config->rms_norm_eps, silent.eps) << silent.family;
      EXPECT_EQ(config->head_dim, silent.head_dim) << silent.family;
      EXPECT_DOUBLE_EQ(config->attention_scale, silent.scale) << silent.family;
    }
  }
}

TEST(Families, KnowTheirSpecialIds) {
  nlohmann::json wide = {{"vocab_size", 60000}};
  EXPECT_THAT(ReadWith("llama")->bos_token_id, Optional(1));
  EXPECT_THAT(ReadWith("llama")->eos_token_ids, ElementsAre(2));
  EXPECT_THAT(ReadWith("mistral")->bos_token_id, Optional(1));
  EXPECT_THAT(ReadWith("gemma")->bos_token_id, Optional(2));
  EXPECT_THAT(ReadWith("gemma2")->eos_token_ids, ElementsAre(1));
  EXPECT_EQ(ReadWith("qwen2")->bos_token_id, std::nullopt);
  EXPECT_THAT(ReadWith("qwen3")->eos_token_ids, IsEmpty());
  EXPECT_EQ(ReadWith("olmo2", wide)->bos_token_id, std::nullopt);
  EXPECT_THAT(ReadWith("olmo2", wide)->eos_token_ids, ElementsAre(50279));
  // No row of 128 is that token. A model cut to a small vocabulary often keeps the ids of the large one.
  EXPECT_EQ(ReadWith("llama", {{"bos_token_id", 128000}})->bos_token_id, std::nullopt);
  EXPECT_THAT(ReadWith("olmo2")->eos_token_ids, IsEmpty());
}

TEST(Families, BiasTheProjectionsThatTheirModelsBias) {
  for (const char* family : {"llama", "qwen3", "gemma", "gemma2", "olmo2"}) {
    EXPECT_FALSE(ReadWith(family)->qkv_bias) << family;
    const auto biased = ReadWith(family, {{"attention_bias", true}});
    EXPECT_TRUE(biased->qkv_bias && biased->output_bias) << family;
  }
  for (const bool field : {false, true}) {
    const auto qwen2 = ReadWith("qwen2", {{"attention_bias", field}});
    EXPECT_TRUE(qwen2->qkv_bias);
    EXPECT_FALSE(qwen2->output_bias);
    EXPECT_FALSE(ReadWith("mistral", {{"attention_bias", field}})->qkv_bias);
  }
  EXPECT_TRUE(ReadWith("llama", {{"mlp_bias", true}})->mlp_bias);
  EXPECT_FALSE(ReadWith("mistral", {{"mlp_bias", true}})->mlp_bias);
}

TEST(Families, NormWhereTheirBlocksDo) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "gemma"}) {
    EXPECT_EQ(ReadWith(family)->norm_placement, NormPlacement::kBefore) << family;
  }
  EXPECT_EQ(ReadWith("gemma2")->norm_placement, NormPlacement::kBeforeAndAfter);
  EXPECT_EQ(ReadWith("olmo2")->norm_placement, NormPlacement::kAfter);
  for (const char* family : kFamilies) {
    const bool gemma = std::string(family).starts_with("gemma");
    EXPECT_EQ(ReadWith(family)->norm_adds_one, gemma) << family;
    EXPECT_EQ(ReadWith(family)->norm_rounds_last, std::string(family) == "olmo2") << family;
    EXPECT_DOUBLE_EQ(ReadWith(family)->embedding_scale, gemma ? 8.0 : 1.0) << family;
  }
}

TEST(Families, NormQueriesAndKeysInQwen3AndOlmo2Alone) {
  for (const char* family : {"llama", "mistral", "qwen2", "gemma", "gemma2"}) {
    EXPECT_EQ(ReadWith(family)->query_key_norm, QueryKeyNorm::kNone) << family;
  }
  EXPECT_EQ(ReadWith("qwen3")->query_key_norm, QueryKeyNorm::kPerHead);
  EXPECT_EQ(ReadWith("olmo2")->query_key_norm, QueryKeyNorm::kAllHeads);
}

TEST(Families, CallTheMlpsNormByItsName) {
  EXPECT_EQ(FindFamily("llama")->names.mlp_norm, "post_attention_layernorm.weight");
  EXPECT_EQ(FindFamily("gemma2")->names.mlp_norm, "pre_feedforward_layernorm.weight");
  EXPECT_EQ(FindFamily("gemma2")->names.attention_out_norm, "post_attention_layernorm.weight");
  EXPECT_EQ(FindFamily("olmo2")->names.attention_out_norm, "post_attention_layernorm.weight");
  EXPECT_EQ(FindFamily("olmo2")->names.mlp_out_norm, "post_feedforward_layernorm.weight");
}

TEST(Families, ActivateByHiddenAct) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "olmo2"}) {
    EXPECT_EQ(ReadWith(family)->activation, Activation::kSilu) << family;
    EXPECT_EQ(ReadWith(family, {{"hidden_act", "gelu"}})->activation, Activation::kGelu) << family;
    EXPECT_EQ(ReadWith(family, {{"hidden_act", "gelu_pytorch_tanh"}})->activation, Activation::kGeluTanh);
    ExpectRefused(ReadWith(family, {{"hidden_act", "relu"}}), {"hidden_act", "\"relu\"", "silu"});
  }
}

// The first gemma files say hidden_act "gelu" and mean the tanh form.
TEST(Families, ActivateGemmaByHiddenActivation) {
  for (const nlohmann::json& patch :
       {nlohmann::json{{"hidden_act", "gelu"}},
        nlohmann::json{{"hidden_act", "gelu"}, {"hidden_activation", nullptr}},
        nlohmann::json{{"hidden_act", "silu"}, {"hidden_activation", nullptr}},
        nlohmann::json{{"hidden_activation", "gelu_pytorch_tanh"}}, nlohmann::json::object()}) {
    EXPECT_EQ(ReadWith("gemma", patch)->activation, Activation::kGeluTanh) << patch;
    EXPECT_EQ(ReadWith("gemma2", patch)->activation, Activation::kGeluTanh) << patch;
  }
  EXPECT_EQ(ReadWith("gemma", {{"hidden_activation", "gelu"}})->activation, Activation::kGelu);
  EXPECT_EQ(ReadWith("gemma2", {{"hidden_activation", "silu"}})->activation, Activation::kSilu);
  ExpectRefused(ReadWith("gemma", {{"hidden_act", "silu"}}), {"hidden_act", "hidden_activation"});
}

TEST(Families, ScaleGemma2ByItsOwnScalarNotByTheHead) {
  EXPECT_EQ(ReadWith("gemma2", {{"query_pre_attn_scalar", 16}, {"head_dim", 24}})->attention_scale, 0.25);
  EXPECT_DOUBLE_EQ(ReadWith("gemma2", {{"query_pre_attn_scalar", 144}})->attention_scale, 1.0 / 12);
  ExpectRefused(ReadWith("gemma2", {{"query_pre_attn_scalar", 0}}), {"query_pre_attn_scalar is 0"});
}

TEST(Families, CapGemma2SoftlyUnlessNull) {
  EXPECT_EQ(ReadWith("gemma2")->attention_soft_cap, 50.0);
  EXPECT_EQ(ReadWith("gemma2")->final_soft_cap, 30.0);
  const auto off =
      ReadWith("gemma2", {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}});
  EXPECT_EQ(off->attention_soft_cap, 0.0);
  EXPECT_EQ(off->final_soft_cap, 0.0);
  EXPECT_EQ(ReadWith("gemma2", {{"attn_logit_softcapping", 5.0}})->attention_soft_cap, 5.0);
  EXPECT_EQ(ReadWith("gemma")->final_soft_cap, 0.0);
}

TEST(Families, RefuseWhatTheyDoNotComputeByName) {
  for (const char* family : kFamilies) {
    for (const char* name : {"num_local_experts", "num_experts", "n_routed_experts"}) {
      ExpectRefused(ReadWith(family, {{name, 8}}), {name, "experts"});
    }
    ExpectRefused(ReadWith(family, {{"clip_qkv", 8.0}}), {"clip_qkv"});
    EXPECT_TRUE(ReadWith(family, {{"clip_qkv", nullptr}}).ok());
    ExpectRefused(ReadWith(family, {{"quantization_config", {{"bits", 4}}}}), {"quantization_config"});
    ExpectRefused(ReadWith(family, {{"partial_rotary_factor", 0.5}}), {"partial_rotary_factor"});
    ExpectRefused(ReadWith(family, {{"use_bidirectional_attention", true}}), {"use_bidirectional_attention"});
    EXPECT_TRUE(ReadWith(family, {{"use_bidirectional_attention", nullptr}}).ok());
  }
  ExpectRefused(ReadWith("mixtral"),
                {"model_type", "mixtral", "llama, mistral, qwen2, qwen3, gemma, gemma2, olmo2"});
}

}  // namespace
}  // namespace ropelab::formats
