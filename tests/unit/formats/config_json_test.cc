#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/formats/temporary_directory.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {
namespace {

using ::ropelab::testing::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The fields that no llama goes without.
nlohmann::json Minimal() {
  return {{"model_type", "llama"},    {"hidden_size", 64},        {"num_hidden_layers", 2},
          {"num_attention_heads", 4}, {"intermediate_size", 160}, {"vocab_size", 128}};
}

absl::StatusOr<ModelConfig> ReadText(const std::string& text) {
  TemporaryDirectory directory;
  directory.Write("config.json", text);
  return ReadConfig(directory.path());
}

absl::StatusOr<ModelConfig> Read(const nlohmann::json& patch) {
  nlohmann::json config = Minimal();
  config.update(patch);
  return ReadText(config.dump());
}

void ExpectRefused(const absl::StatusOr<ModelConfig>& config, std::initializer_list<const char*> words) {
  ASSERT_FALSE(config.ok());
  for (const char* word : words) EXPECT_THAT(std::string(config.status().message()), HasSubstr(word));
}

TEST(ReadConfig, FillsWhatIsMissingAsHuggingFaceDoes) {
  const auto config = Read(nlohmann::json::object());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->rope_theta, 10000.0);
  EXPECT_EQ(config->rope_scaling.kind, RopeScalingKind::kNone);
  EXPECT_EQ(config->attention_scale, 0.25);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_FALSE(config->qkv_bias || config->output_bias || config->mlp_bias);
  EXPECT_THAT(config->sliding_window, ElementsAre(0, 0));
  EXPECT_EQ(config->dtype, Dtype::kFloat32);
  EXPECT_EQ(config->max_positions, 2048);
  EXPECT_EQ(config->rms_norm_eps, 1e-6);
}

TEST(ReadConfig, TakesANullHeadDimAsMissing) {
  EXPECT_EQ(Read({{"head_dim", nullptr}})->head_dim, 16);
}

TEST(ReadConfig, KeepsAHeadDimThatIsNotHiddenOverHeads) {
  const auto config = Read({{"head_dim", 64}});
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->attention_scale, 0.125);
}

TEST(ReadConfig, PutsABiasOnAllFourProjectionsForAttentionBias) {
  const auto config = Read({{"attention_bias", true}});
  EXPECT_TRUE(config->qkv_bias && config->output_bias);
  EXPECT_FALSE(config->mlp_bias);
}

TEST(ReadConfig, TakesDtypeForTorchDtype) {
  EXPECT_EQ(Read({{"torch_dtype", "float16"}})->dtype, Dtype::kFloat16);
  EXPECT_EQ(Read({{"torch_dtype", "float32"}, {"dtype", "bfloat16"}})->dtype, Dtype::kBFloat16);
}

TEST(ReadConfig, LetsThetaOfRopeParametersWin) {
  EXPECT_EQ(
      Read({{"rope_theta", 10000.0}, {"rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}}}})
          ->rope_theta,
      5e5);
}

TEST(ReadConfig, ReadsLlama3ScalingUnderEveryName) {
  const nlohmann::json scaling = {{"factor", 8.0},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 4.0},
                                  {"original_max_position_embeddings", 64}};
  for (const auto& [place, key] :
       {std::pair{"rope_scaling", "rope_type"}, {"rope_scaling", "type"}, {"rope_parameters", "rope_type"}}) {
    nlohmann::json named = scaling;
    named[key] = "llama3";
    const auto config = Read({{place, named}});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->rope_scaling.kind, RopeScalingKind::kLlama3);
    EXPECT_EQ(config->rope_scaling.factor, 8.0);
    EXPECT_EQ(config->rope_scaling.original_max_positions, 64);
  }
}

TEST(ReadConfig, TakesDefaultScalingAsNone) {
  EXPECT_EQ(Read({{"rope_scaling", {{"rope_type", "default"}}}})->rope_scaling.kind, RopeScalingKind::kNone);
}

TEST(ReadConfig, RefusesUnknownScalingByName) {
  ExpectRefused(Read({{"rope_scaling", {{"type", "yarn"}, {"factor", 2.0}}}}),
                {"rope_scaling.rope_type", "\"yarn\"", "llama3"});
  ExpectRefused(Read({{"rope_parameters", {{"rope_type", "linear"}}}}),
                {"rope_parameters.rope_type", "\"linear\""});
}

TEST(ReadConfig, RefusesScalingWithoutAType) {
  ExpectRefused(Read({{"rope_scaling", {{"factor", 2.0}}}}), {"rope_type is missing"});
}

TEST(ReadConfig, RefusesAnUnknownFamilyAndListsTheKnown) {
  ExpectRefused(Read({{"model_type", "mamba"}}), {"model_type", "\"mamba\"", "llama"});
}

TEST(ReadConfig, RefusesAnActivationOtherThanSilu) {
  ExpectRefused(Read({{"hidden_act", "gelu"}}), {"hidden_act", "\"gelu\"", "silu"});
}

TEST(ReadConfig, RefusesHeadsThatKvHeadsDoNotDivide) {
  ExpectRefused(Read({{"num_key_value_heads", 3}}), {"num_key_value_heads", "is 3", "4"});
}

TEST(ReadConfig, RefusesAnOddHeadDim) {
  ExpectRefused(Read({{"head_dim", 15}}), {"head_dim", "15", "even"});
}

TEST(ReadConfig, RefusesAbsurdNumbersWithFieldValueAndRange) {
  ExpectRefused(Read({{"num_hidden_layers", 0}}), {"num_hidden_layers is 0", "from 1"});
  ExpectRefused(Read({{"num_attention_heads", -4}}), {"num_attention_heads is -4"});
  ExpectRefused(Read({{"vocab_size", 1e300}}), {"vocab_size is 1e+300"});
  ExpectRefused(Read({{"hidden_size", "64"}}), {"hidden_size is \"64\""});
  ExpectRefused(Read({{"rope_theta", -1.0}}), {"rope_theta is -1"});
  ExpectRefused(Read({{"rms_norm_eps", 0}}), {"rms_norm_eps is 0"});
}

TEST(ReadConfig, RefusesAMissingRequiredField) {
  nlohmann::json config = Minimal();
  config.erase("hidden_size");
  ExpectRefused(ReadText(config.dump()), {"hidden_size is missing"});
}

TEST(ReadConfig, RefusesNaN) {
  std::string text = Minimal().dump();
  text.insert(1, "\"rope_theta\":NaN,");
  ExpectRefused(ReadText(text), {"config.json", "rope_theta", "not JSON"});
}

TEST(ReadConfig, RefusesAFieldGivenTwice) {
  std::string text = Minimal().dump();
  text.insert(1, "\"vocab_size\":128,");
  ExpectRefused(ReadText(text), {"vocab_size", "twice"});
}

TEST(ReadConfig, RefusesDeepNesting) {
  ExpectRefused(ReadText(std::string(100'000, '[')), {"nested deeper"});
}

TEST(ReadConfig, RefusesQuantisedCheckpoints) {
  ExpectRefused(Read({{"quantization_config", {{"bits", 4}}}}), {"quantization_config"});
}

TEST(ReadConfig, ReadsEosAsOneIdOrAList) {
  EXPECT_THAT(Read({{"eos_token_id", 7}})->eos_token_ids, ElementsAre(7));
  EXPECT_THAT(Read({{"eos_token_id", {7, 9}}})->eos_token_ids, ElementsAre(7, 9));
  EXPECT_TRUE(Read({{"eos_token_id", nullptr}})->eos_token_ids.empty());
}

TEST(ReadConfig, SaysThatTheFileIsMissing) {
  TemporaryDirectory directory;
  EXPECT_EQ(ReadConfig(directory.path()).status().code(), absl::StatusCode::kNotFound);
}

TEST(ConfigHash, IgnoresHowTheConfigIsWrittenAndSeesWhatItMeans) {
  const auto plain = Read(nlohmann::json::object());
  const auto explicit_fields =
      Read({{"num_key_value_heads", 4}, {"head_dim", 16}, {"rope_theta", 10000}, {"use_cache", true}});
  EXPECT_EQ(ConfigHash(*plain), ConfigHash(*explicit_fields));
  EXPECT_NE(ConfigHash(*plain), ConfigHash(*Read({{"rope_theta", 10001}})));
}

ModelConfig Rope(int64_t head_dim, double theta) {
  ModelConfig config;
  config.head_dim = head_dim;
  config.rope_theta = theta;
  return config;
}

// fp32 values may differ in the last place between implementations of pow.
void ExpectFrequencies(const std::vector<double>& computed, const std::vector<double>& numpy) {
  ASSERT_EQ(computed.size(), numpy.size());
  for (size_t i = 0; i < numpy.size(); ++i) {
    EXPECT_NEAR(computed[i] / numpy[i], 1.0, 2.5e-7) << "pair " << i;
    EXPECT_EQ(computed[i], static_cast<double>(static_cast<float>(computed[i]))) << "pair " << i;
  }
}

// numpy 1.24, float32 throughout: 1 / base ** (arange(0, D, 2) / D).
TEST(InverseFrequencies, AreThoseOfNumpyInFloat32) {
  ExpectFrequencies(InverseFrequencies(Rope(16, 10000)),
                    {1, 0.316227764, 0.100000001, 0.0316227786, 0.00999999978, 0.00316227786, 0.00100000005,
                     0.000316227786});
}

// numpy 1.24, float32, with the published llama3 rule: low and high frequencies and the blend between them.
TEST(InverseFrequencies, AreScaledAsLlama3Says) {
  ModelConfig config = Rope(16, 500000);
  config.rope_scaling = {RopeScalingKind::kLlama3, 8.0, 1.0, 4.0, 64};
  ExpectFrequencies(InverseFrequencies(config),
                    {1, 0.079403013, 0.00470075384, 0.000911583134, 0.000176776681, 3.42810235e-05,
                     6.64787058e-06, 1.28917316e-06});
}

TEST(InverseFrequencies, BlendTheMiddleBandOfLlama31) {
  ModelConfig config = Rope(128, 500000);
  config.rope_scaling = {RopeScalingKind::kLlama3, 8.0, 1.0, 4.0, 8192};
  const std::vector<double> frequencies = InverseFrequencies(config);
  // Pairs 28 to 36: the last one kept, the blended ones, the first two divided by 8.
  ExpectFrequencies({frequencies.begin() + 28, frequencies.begin() + 37},
                    {0.00321144611, 0.00216657063, 0.00137189368, 0.00085675146, 0.000524846022,
                     0.00031269365, 0.000178507791, 9.5562129e-05, 7.78465546e-05});
}

}  // namespace
}  // namespace ropelab::formats
