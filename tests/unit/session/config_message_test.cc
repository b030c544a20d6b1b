#include "worker/session/config_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropelab::session {
namespace {

// Llama-2-7B as published: 6,738,415,616 parameters.
formats::ModelConfig Llama2Of7B() {
  formats::ModelConfig config;
  config.family = "llama";
  config.layers = 32;
  config.query_heads = config.kv_heads = 32;
  config.head_dim = 128;
  config.hidden_size = 4096;
  config.intermediate_size = 11008;
  config.vocabulary = 32000;
  config.max_positions = 4096;
  config.sliding_window.assign(32, 0);
  config.dtype = formats::Dtype::kFloat16;
  config.bos_token_id = 1;
  config.eos_token_ids = {2};
  return config;
}

// Llama-3.2-1B as published: 1,235,814,400 parameters with a tied embedding.
formats::ModelConfig Llama32Of1B() {
  formats::ModelConfig config;
  config.layers = 16;
  config.query_heads = 32;
  config.kv_heads = 8;
  config.head_dim = 64;
  config.hidden_size = 2048;
  config.intermediate_size = 8192;
  config.vocabulary = 128256;
  config.tied_embeddings = true;
  config.eos_token_ids = {128001, 128008, 128009};
  return config;
}

TEST(ConfigMessage, CountsThePublishedParameters) {
  EXPECT_EQ(CountParameters(Llama2Of7B()), 6738415616);
  EXPECT_EQ(CountParameters(Llama32Of1B()), 1235814400);
}

TEST(ConfigMessage, CountsBiases) {
  formats::ModelConfig config = Llama2Of7B();
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  // Per layer: q, k, v, o of 4096 each, gate and up of 11008, down of 4096.
  EXPECT_EQ(CountParameters(config), 6738415616 + 32 * (5 * 4096 + 2 * 11008));
}

// Gemma-2-2B as published: 2,614,341,888. Four norms a layer, one matrix for both ends.
TEST(ConfigMessage, CountsTheNormsAroundBlocks) {
  formats::ModelConfig config;
  config.layers = 26;
  config.query_heads = 8;
  config.kv_heads = 4;
  config.head_dim = 256;
  config.hidden_size = 2304;
  config.intermediate_size = 9216;
  config.vocabulary = 256000;
  config.tied_embeddings = true;
  config.norm_placement = formats::NormPlacement::kBeforeAndAfter;
  EXPECT_EQ(CountParameters(config), 2614341888);
}

// Qwen3-0.6B as published: 596,049,920, with one weight of 128 for queries and one for keys in each layer.
TEST(ConfigMessage, CountsNormsOfEachHead) {
  formats::ModelConfig config;
  config.layers = 28;
  config.query_heads = 16;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.hidden_size = 1024;
  config.intermediate_size = 3072;
  config.vocabulary = 151936;
  config.tied_embeddings = true;
  config.query_key_norm = formats::QueryKeyNorm::kPerHead;
  EXPECT_EQ(CountParameters(config), 596049920);
}

// OLMo-2-1124-7B as published: 7,298,617,344. Norms of all heads' dimensions, and two norms of outputs.
TEST(ConfigMessage, CountsNormsOfAllHeads) {
  formats::ModelConfig config;
  config.layers = 32;
  config.query_heads = config.kv_heads = 32;
  config.head_dim = 128;
  config.hidden_size = 4096;
  config.intermediate_size = 11008;
  config.vocabulary = 100352;
  config.norm_placement = formats::NormPlacement::kAfter;
  config.query_key_norm = formats::QueryKeyNorm::kAllHeads;
  EXPECT_EQ(CountParameters(config), 7298617344);
}

TEST(ConfigMessage, CarriesShapesWindowsAndTokens) {
  formats::ModelConfig config = Llama2Of7B();
  config.sliding_window[3] = 512;
  const v1::ModelConfig message = ToMessage(config);
  EXPECT_EQ(message.family(), "llama");
  EXPECT_EQ(message.layers(), 32);
  EXPECT_EQ(message.kv_heads(), 32);
  EXPECT_EQ(message.vocabulary(), 32000);
  EXPECT_EQ(message.max_positions(), 4096);
  ASSERT_EQ(message.sliding_window_size(), 32);
  EXPECT_EQ(message.sliding_window(3), 512);
  EXPECT_EQ(message.dtype(), v1::Dtype::FLOAT16);
  EXPECT_EQ(message.bos_token_id(), 1);
  ASSERT_EQ(message.special_token_ids_size(), 2);
  EXPECT_EQ(message.special_token_ids(0), 1);
  EXPECT_EQ(message.special_token_ids(1), 2);
  ASSERT_EQ(message.inv_freq_size(), 64);
  EXPECT_EQ(message.inv_freq(0), 1.0);
  EXPECT_NEAR(message.inv_freq(32), 0.01, 1e-9);  // 10000^(-64/128)
}

TEST(ConfigMessage, WithoutATokenizerSaysSo) {
  const v1::ModelConfig message = ToMessage(Llama2Of7B());
  EXPECT_FALSE(message.has_tokenizer());
  EXPECT_FALSE(message.tokenizer_adds_bos());
}

TEST(ConfigMessage, TakesTokensThatTheTokenizerHasAndTheEmbeddingToo) {
  // Embeddings are often padded; ids beyond the tokenizer's stand for nothing.
  const TokenizerFacts smaller = {31000, {0, 5}, {}};
  EXPECT_EQ(ToMessage(Llama2Of7B(), &smaller).vocabulary(), 31000);
  const TokenizerFacts larger = {33000, {5, 32500}, {}};
  const v1::ModelConfig message = ToMessage(Llama2Of7B(), &larger);
  EXPECT_EQ(message.vocabulary(), 32000);
  EXPECT_TRUE(message.has_tokenizer());
  EXPECT_FALSE(message.tokenizer_adds_bos());
  EXPECT_EQ(message.bos_token_id(), 1);
  // The config's 1 and 2 with the tokenizer's 5; 32500 has no embedding.
  EXPECT_THAT(message.special_token_ids(), testing::ElementsAre(1, 2, 5));
}

TEST(ConfigMessage, TakesBosFromTheTemplateWhereItPutsOneIdFirst) {
  const TokenizerFacts adds = {32000, {}, {7}};
  const v1::ModelConfig message = ToMessage(Llama2Of7B(), &adds);
  EXPECT_TRUE(message.tokenizer_adds_bos());
  EXPECT_EQ(message.bos_token_id(), 7);
  EXPECT_THAT(message.special_token_ids(), testing::ElementsAre(1, 2, 7));
  for (const TokenizerFacts& none : {TokenizerFacts{32000, {}, {7, 8}}, TokenizerFacts{32000, {}, {}},
                                     TokenizerFacts{33000, {}, {32001}}}) {
    EXPECT_FALSE(ToMessage(Llama2Of7B(), &none).tokenizer_adds_bos());
    EXPECT_EQ(ToMessage(Llama2Of7B(), &none).bos_token_id(), 1);
  }
}

TEST(ConfigMessage, WithoutABosTokenHasNone) {
  const v1::ModelConfig message = ToMessage(Llama32Of1B());
  EXPECT_FALSE(message.has_bos_token_id());
  EXPECT_EQ(message.special_token_ids_size(), 3);
}

}  // namespace
}  // namespace ropelab::session
