#include <sys/stat.h>

#include <set>
#include <string>
#include <vector>

#include "tests/unit/formats/config_text.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {
namespace {

using ::ropelab::unit::ExpectRefused;
using ::ropelab::unit::MinimalConfig;
using ::ropelab::unit::ReadConfigText;
using ::ropelab::unit::ReadLlama;
using ::ropelab::unit::ReadWith;
using ::ropelab::unit::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReadConfig, FillsWhatIsMissingAsHuggingFaceDoes) {
  const auto config = ReadLlama(nlohmann::json::object());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->rope_theta, 10000.0);
  EXPECT_EQ(config->rope_scaling.kind, RopeScalingKind::kNone);
  EXPECT_EQ(config->attention_scale, 0.25);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_FALSE(config->qkv_bias || config->output_bias || config->mlp_bias);
  EXPECT_THAT(config->sliding_window, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(config->dtype, Dtype::kFloat32);
  EXPECT_EQ(config->max_positions, 2048);
  EXPECT_EQ(config->rms_norm_eps, 1e-6);
}

TEST(ReadConfig, TakesANullHeadDimAsMissing) {
  EXPECT_EQ(ReadLlama({{"head_dim", nullptr}})->head_dim, 16);
}

TEST(ReadConfig, KeepsAHeadDimThatIsNotHiddenOverHeads) {
  const auto config = ReadLlama({{"head_dim", 64}});
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->attention_scale, 0.125);
}

TEST(ReadConfig, PutsABiasOnAllFourProjectionsForAttentionBias) {
  const auto config = ReadLlama({{"attention_bias", true}});
  EXPECT_TRUE(config->qkv_bias && config->output_bias);
  EXPECT_FALSE(config->mlp_bias);
}

TEST(ReadConfig, TakesDtypeForTorchDtype) {
  EXPECT_EQ(ReadLlama({{"torch_dtype", "float16"}})->dtype, Dtype::kFloat16);
  EXPECT_EQ(ReadLlama({{"torch_dtype", "float32"}, {"dtype", "bfloat16"}})->dtype, Dtype::kBFloat16);
}

TEST(ReadConfig, RefusesAnUnknownFamilyAndListsTheKnown) {
  ExpectRefused(ReadLlama({{"model_type", "mamba"}}), {"model_type", "\"mamba\"", "llama"});
}

TEST(ReadConfig, RefusesHeadsThatKvHeadsDoNotDivide) {
  ExpectRefused(ReadLlama({{"num_key_value_heads", 3}}), {"num_key_value_heads", "is 3", "4"});
}

TEST(ReadConfig, RefusesAnOddHeadDim) {
  ExpectRefused(ReadLlama({{"head_dim", 15}}), {"head_dim", "15", "even"});
}

TEST(ReadConfig, RefusesAbsurdNumbersWithFieldValueAndRange) {
  ExpectRefused(ReadLlama({{"num_hidden_layers", 0}}), {"num_hidden_layers is 0", "from 1"});
  ExpectRefused(ReadLlama({{"num_attention_heads", -4}}), {"num_attention_heads is -4"});
  ExpectRefused(ReadLlama({{"vocab_size", 1e300}}), {"vocab_size is 1e+300"});
  ExpectRefused(ReadLlama({{"hidden_size", "64"}}), {"hidden_size is \"64\""});
  ExpectRefused(ReadLlama({{"rope_theta", -1.0}}), {"rope_theta is -1"});
  ExpectRefused(ReadLlama({{"rms_norm_eps", 0}}), {"rms_norm_eps is 0"});
}

TEST(ReadConfig, RefusesAMissingRequiredField) {
  nlohmann::json config = MinimalConfig("llama");
  config.erase("hidden_size");
  ExpectRefused(ReadConfigText(config.dump()), {"hidden_size is missing"});
}

TEST(ReadConfig, RefusesNaN) {
  std::string text = MinimalConfig("llama").dump();
  text.insert(1, "\"rope_theta\":NaN,");
  ExpectRefused(ReadConfigText(text), {"config.json", "rope_theta", "not JSON"});
}

TEST(ReadConfig, RefusesAFieldGivenTwice) {
  std::string text = MinimalConfig("llama").dump();
  text.insert(1, "\"vocab_size\":128,");
  ExpectRefused(ReadConfigText(text), {"vocab_size", "twice"});
}

TEST(ReadConfig, RefusesDeepNesting) {
  ExpectRefused(ReadConfigText(std::string(100'000, '[')), {"nested deeper"});
}

TEST(ReadConfig, RefusesQuantisedCheckpoints) {
  ExpectRefused(ReadLlama({{"quantization_config", {{"bits", 4}}}}), {"quantization_config"});
}

TEST(ReadConfig, ReadsEosAsOneIdOrAList) {
  EXPECT_THAT(ReadLlama({{"eos_token_id", 7}})->eos_token_ids, ElementsAre(7));
  EXPECT_THAT(ReadLlama({{"eos_token_id", {7, 9}}})->eos_token_ids, ElementsAre(7, 9));
  EXPECT_TRUE(ReadLlama({{"eos_token_id", nullptr}})->eos_token_ids.empty());
}

TEST(ReadConfig, RefusesWhatIsNoRegularFile) {
  TemporaryDirectory directory;
  ASSERT_EQ(mkfifo(directory.File("config.json").c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadConfig(directory.path()).status().message()),
              EndsWith("config.json: is not a regular file; put one there"));
}

TEST(ReadConfig, SaysThatTheFileIsMissing) {
  TemporaryDirectory directory;
  EXPECT_EQ(ReadConfig(directory.path()).status().code(), absl::StatusCode::kNotFound);
}

TEST(ConfigHash, IgnoresHowTheConfigIsWrittenAndSeesWhatItMeans) {
  const auto plain = ReadLlama(nlohmann::json::object());
  const auto explicit_fields =
      ReadLlama({{"num_key_value_heads", 4}, {"head_dim", 16}, {"rope_theta", 10000}, {"use_cache", true}});
  EXPECT_EQ(ConfigHash(*plain), ConfigHash(*explicit_fields));
  EXPECT_NE(ConfigHash(*plain), ConfigHash(*ReadLlama({{"rope_theta", 10001}})));
}

// Taken before other families than llama were read: what is measured stays known under its config's hash.
TEST(ConfigHash, OfAnOldLlamaIsWhatItWas) {
  const nlohmann::json common = {{"bos_token_id", 1},       {"eos_token_id", 2},
                                 {"hidden_act", "silu"},    {"hidden_size", 64},
                                 {"num_hidden_layers", 3},  {"num_attention_heads", 4},
                                 {"rms_norm_eps", 1e-05},   {"max_position_embeddings", 512},
                                 {"torch_dtype", "float32"}};
  nlohmann::json tied = common;
  tied.update({{"intermediate_size", 160}, {"rope_scaling", nullptr}, {"tie_word_embeddings", true}});
  EXPECT_EQ(ConfigHash(*ReadLlama(tied)), "9ab041bf755ee16cb9cc4f4c85889eca0d81ac63ba186d91d92d42b1a867b136");
  nlohmann::json scaled = common;
  scaled.update({{"intermediate_size", 128},
                 {"num_key_value_heads", 2},
                 {"vocab_size", 144},
                 {"rope_theta", 500000.0},
                 {"rope_scaling",
                  {{"rope_type", "llama3"},
                   {"factor", 8.0},
                   {"low_freq_factor", 1.0},
                   {"high_freq_factor", 4.0},
                   {"original_max_position_embeddings", 64}}}});
  EXPECT_EQ(ConfigHash(*ReadLlama(scaled)),
            "8501798ec27b1e47bbef63c3df6a1a897dc2832e0fc8e6b6a27b5ae741db7803");
}

TEST(CanonicalConfigText, SaysNothingOfPartsThatAreNotUsed) {
  const std::string plain = CanonicalConfigText(*ReadLlama(nlohmann::json::object()));
  for (const char* part : {"norm_adds", "norm_rounds", "norm_placement", "key_norm", "soft_cap",
                           "embedding_scale", "beta", "factor", "truncate"}) {
    EXPECT_THAT(plain, Not(HasSubstr(part)));
  }
}

TEST(CanonicalConfigText, SeesEveryPartThatIsUsed) {
  const ModelConfig plain = *ReadWith("gemma2");
  std::vector<ModelConfig> others(12, plain);
  others[0].norm_adds_one = false;
  others[1].norm_rounds_last = true;
  others[2].norm_placement = NormPlacement::kAfter;
  others[3].query_key_norm = QueryKeyNorm::kAllHeads;
  others[4].embedding_scale = 1;
  others[5].attention_soft_cap = 1;
  others[6].final_soft_cap = 0;
  others[7].activation = Activation::kGelu;
  others[8].sliding_window[0] = 0;
  others[9].rope_scaling.kind = RopeScalingKind::kYarn;
  others[10].rope_scaling.attention_factor = 1.5;
  others[11].rope_scaling.long_factor = {1, 2};
  std::set<std::string> texts = {CanonicalConfigText(plain)};
  for (const ModelConfig& other : others) texts.insert(CanonicalConfigText(other));
  EXPECT_EQ(texts.size(), others.size() + 1);
}

}  // namespace
}  // namespace ropelab::formats
