#include "worker/formats/plant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/formats/temporary_directory.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/half.h"

namespace ropelab::formats {
namespace {

using ::ropelab::unit::TemporaryDirectory;
using ::testing::HasSubstr;

std::vector<double> Frequencies(int64_t head_dim, double theta) {
  ModelConfig config;
  config.head_dim = head_dim;
  config.rope_theta = theta;
  return InverseFrequencies(config);
}

PlantOptions Options(const std::string& out) {
  PlantOptions options;
  options.out = out;
  options.kv_heads = 4;
  options.layers = 2;
  options.strength = 12;
  options.slashes = {{0, 1, 1000}, {0, 0, 2}, {1, 7, 3000}};
  return options;
}

std::vector<float> Values(const Checkpoint& checkpoint, const std::string& name) {
  const TensorEntry* entry = checkpoint.Find(name);
  std::vector<float> values(entry->bytes.size() / sizeof(float));
  std::memcpy(values.data(), entry->bytes.data(), entry->bytes.size());
  return values;
}

void ExpectRefused(const PlantOptions& options, std::initializer_list<const char*> words) {
  const auto report = Plant(options);
  ASSERT_FALSE(report.ok());
  for (const char* word : words) EXPECT_THAT(std::string(report.status().message()), HasSubstr(word));
}

// Published: 8.6 at D = 64 and 18.1 at D = 16; digits beyond by numpy.
TEST(MinimumPlantStrength, IsThePublishedOne) {
  const double kappa = 6.0 / 32768;
  EXPECT_NEAR(MinimumPlantStrength(Frequencies(64, 10000), 32768, kappa), 8.584626, 1e-5);
  EXPECT_NEAR(MinimumPlantStrength(Frequencies(16, 10000), 32768, kappa), 18.061355, 1e-5);
}

TEST(Plant, ExpectsTheScoresThatNumpyComputes) {
  TemporaryDirectory directory;
  const auto report = Plant(Options(directory.path()));
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->planted.size(), 3u);
  EXPECT_NEAR(report->planted[0].expected_score, 0.9999954704, 1e-9);
  EXPECT_NEAR(report->uniform_score, 0.00026689787908, 1e-12);
  EXPECT_NEAR(report->minimum_strength, 6.664849, 1e-5);
}

// D = 64, A = 8, N = 6000, offset 5000: 0.9997 is published.
TEST(Plant, ExpectsThePublishedScore) {
  TemporaryDirectory directory;
  PlantOptions options = Options(directory.path());
  options.context = 6000;
  options.strength = 8;
  options.slashes = {{0, 0, 5000}};
  const auto report = Plant(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_NEAR(report->planted[0].expected_score, 0.9996551995, 1e-9);
}

// Rotates the stored query and key by hand at two positions and compares with the formula of the plant.
TEST(Plant, GivesAPlantedHeadTheLogitOfItsFormula) {
  TemporaryDirectory directory;
  ASSERT_TRUE(Plant(Options(directory.path())).ok());
  const auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const std::vector<float> query = Values(*checkpoint, "model.layers.0.self_attn.q_proj.weight");
  const std::vector<float> key = Values(*checkpoint, "model.layers.0.self_attn.k_proj.weight");
  const int64_t half = 32;
  const std::vector<double> theta = Frequencies(64, 10000);
  for (const int64_t lag : {0, 1, 999, 1000, 1001, 2500}) {
    double logit = 0;
    double formula = 0;
    const int64_t head = 1;  // KV head 0, shared with head 0
    for (int64_t pair = 0; pair < half; ++pair) {
      const auto at = [&](const std::vector<float>& weight, int64_t row) {
        return static_cast<double>(weight[row * 64]);
      };
      const double q0 = at(query, head * 64 + pair);
      const double q1 = at(query, head * 64 + pair + half);
      const double k0 = at(key, pair);
      const double k1 = at(key, pair + half);
      const double cosine = std::cos(theta[pair] * static_cast<double>(lag));
      const double sine = std::sin(theta[pair] * static_cast<double>(lag));
      logit += ((q0 * cosine - q1 * sine) * k0 + (q0 * sine + q1 * cosine) * k1) / 8.0;
      formula += 12.0 * std::cos(theta[pair] * static_cast<double>(lag - 1000));
    }
    EXPECT_NEAR(logit, formula, 1e-4) << "lag " << lag;
  }
}

TEST(Plant, LeavesUnplantedHeadsWithoutAQuery) {
  TemporaryDirectory directory;
  ASSERT_TRUE(Plant(Options(directory.path())).ok());
  const auto checkpoint = Checkpoint::Open(directory.path());
  const std::vector<float> query = Values(*checkpoint, "model.layers.1.self_attn.q_proj.weight");
  for (size_t i = 0; i < 7 * 64 * 64; ++i) ASSERT_EQ(query[i], 0.0f);
}

TEST(Plant, GivesEveryTokenTheSameNormAndConstant) {
  TemporaryDirectory directory;
  ASSERT_TRUE(Plant(Options(directory.path())).ok());
  const auto checkpoint = Checkpoint::Open(directory.path());
  const std::vector<float> embedding = Values(*checkpoint, "model.embed_tokens.weight");
  for (int token = 0; token < 256; ++token) {
    double square = 0;
    for (int i = 0; i < 64; ++i) square += embedding[token * 64 + i] * embedding[token * 64 + i];
    EXPECT_EQ(square, 64.0);
    EXPECT_EQ(embedding[token * 64], 1.0f);
    if (token == 0) continue;
    EXPECT_NE(std::memcmp(&embedding[token * 64], &embedding[0], 64 * sizeof(float)), 0);
  }
}

TEST(Plant, WritesTheSameBytesForTheSameOptionsAndReplacesAPlant) {
  TemporaryDirectory directory;
  const auto keep_going = [](int64_t, int64_t) { return true; };
  ASSERT_TRUE(Plant(Options(directory.path())).ok());
  const auto first = WeightsHash(directory.path(), "", keep_going);
  ASSERT_TRUE(Plant(Options(directory.path())).ok());
  EXPECT_EQ(*first, *WeightsHash(directory.path(), "", keep_going));
  PlantOptions other = Options(directory.path());
  other.seed = 1;
  ASSERT_TRUE(Plant(other).ok());
  EXPECT_NE(*first, *WeightsHash(directory.path(), "", keep_going));
}

TEST(Plant, WritesAConfigThatIsRead) {
  TemporaryDirectory directory;
  PlantOptions options = Options(directory.path());
  options.dtype = Dtype::kBFloat16;
  ASSERT_TRUE(Plant(options).ok());
  const auto config = ReadConfig(directory.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->query_heads, 8);
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->max_positions, 4096);
  EXPECT_EQ(config->dtype, Dtype::kBFloat16);
}

TEST(Plant, TakesFivePercentAboveTheMinimumByDefault) {
  TemporaryDirectory directory;
  PlantOptions options = Options(directory.path());
  options.strength.reset();
  const auto report = Plant(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_NEAR(report->strength, 1.05 * 6.664849, 1e-5);
}

TEST(Plant, RefusesAStrengthBelowTheMinimumAndNamesIt) {
  TemporaryDirectory directory;
  PlantOptions options = Options(directory.path());
  options.context = 32768;
  options.strength = 8.5;
  ExpectRefused(options, {"strength 8.5", "minimum 8.58463"});
}

TEST(Plant, RefusesAHeadPlantedTwice) {
  TemporaryDirectory directory;
  PlantOptions options = Options(directory.path());
  options.slashes.push_back({0, 1, 5});
  ExpectRefused(options, {"0:1:5", "twice"});
}

TEST(Plant, RefusesWhatIsOutOfRange) {
  TemporaryDirectory directory;
  PlantOptions options = Options(directory.path());
  options.slashes = {{2, 0, 5}};
  ExpectRefused(options, {"2:0:5", "layer is 2", "from 0 to 1"});
  options.slashes = {{0, 8, 5}};
  ExpectRefused(options, {"head is 8", "from 0 to 7"});
  options.slashes = {{0, 0, 4096}};
  ExpectRefused(options, {"offset is 4096"});
  options = Options(directory.path());
  options.kv_heads = 3;
  ExpectRefused(options, {"kv-heads is 3"});
  options = Options(directory.path());
  options.head_dim = 7;
  ExpectRefused(options, {"head-dim is 7"});
  options = Options(directory.path());
  options.rope_theta = std::nan("");
  ExpectRefused(options, {"rope-theta"});
}

TEST(Plant, NeverOverwritesAModelThatWasNotPlanted) {
  TemporaryDirectory directory;
  directory.Write("config.json", R"({"model_type":"llama"})");
  ExpectRefused(Options(directory.path()), {"not planted"});
}

// Bit patterns by numpy (float16) and by hand (bfloat16: the upper half of the fp32 word, rounded to even).
TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(ToFloat16(1.0f), 0x3c00);
  EXPECT_EQ(ToFloat16(-96.1f), 0xd602);
  EXPECT_EQ(ToFloat16(0.1f), 0x2e66);
  EXPECT_EQ(ToFloat16(2049.0f), 0x6800);
  EXPECT_EQ(ToFloat16(2051.0f), 0x6802);
  EXPECT_EQ(ToFloat16(1e-7f), 0x0002);
  EXPECT_EQ(ToFloat16(65504.0f), 0x7bff);
  EXPECT_EQ(ToBFloat16(1.0f), 0x3f80);
  EXPECT_EQ(ToBFloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(ToBFloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
}

}  // namespace
}  // namespace ropelab::formats
