#include <cmath>

#include "tests/unit/formats/config_text.h"

namespace ropelab::formats {
namespace {

using ::ropelab::unit::ExpectRefused;
using ::ropelab::unit::ReadLlama;
using ::ropelab::unit::ReadWith;
using ::testing::Each;
using ::testing::SizeIs;

nlohmann::json Scaling(const nlohmann::json& fields) {
  return {{"rope_scaling", fields}, {"max_position_embeddings", 4096}};
}

TEST(RopeFields, AreReadUnderEverySpelling) {
  nlohmann::json llama3 = {{"factor", 8.0},
                           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 4.0},
                           {"original_max_position_embeddings", 64}};
  for (const auto& [place, key] : {std::pair{"rope_scaling", "rope_type"},
                                   {"rope_scaling", "type"},
                                   {"rope_parameters", "rope_type"},
                                   {"rope_parameters", "type"}}) {
    nlohmann::json named = llama3;
    named[key] = "llama3";
    const auto config = ReadLlama({{place, named}, {"rope_theta", 5e5}});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->rope_scaling.kind, RopeScalingKind::kLlama3);
    EXPECT_EQ(config->rope_scaling.factor, 8.0);
    EXPECT_EQ(config->rope_scaling.original_max_positions, 64);
    EXPECT_EQ(config->rope_theta, 5e5);
  }
}

TEST(RopeFields, LetThetaOfRopeParametersWin) {
  EXPECT_EQ(
      ReadLlama({{"rope_theta", 1e4}, {"rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}}}})
          ->rope_theta,
      5e5);
  // It need not name a kind.
  const auto plain = ReadLlama({{"rope_parameters", {{"rope_theta", 5e5}}}});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->rope_theta, 5e5);
  const auto both = ReadLlama(
      {{"rope_parameters", {{"rope_theta", 5e5}}}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}});
  EXPECT_EQ(both->rope_theta, 5e5);
  EXPECT_EQ(both->rope_scaling.kind, RopeScalingKind::kLinear);
}

TEST(RopeFields, TakeDefaultNullAndEmptyForNoScaling) {
  for (const nlohmann::json& scaling :
       {nlohmann::json{{"rope_type", "default"}}, nlohmann::json(nullptr), nlohmann::json::object()}) {
    const auto config = ReadLlama(Scaling(scaling));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->rope_scaling, RopeScaling());
  }
}

TEST(RopeFields, RefuseTwoPlacesThatDisagree) {
  const nlohmann::json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  ExpectRefused(ReadLlama({{"rope_scaling", linear}, {"rope_parameters", {{"rope_type", "default"}}}}),
                {"rope_scaling", "different from rope_parameters"});
  EXPECT_TRUE(ReadLlama({{"rope_scaling", linear}, {"rope_parameters", linear}}).ok());
}

// transformers 5 may give parameters for each type of layer.
TEST(RopeFields, TakeParametersForTypesOfLayersWhereTheyAgree) {
  const nlohmann::json one = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e4}};
  nlohmann::json other = one;
  other["rope_theta"] = 1e6;
  const nlohmann::json same = {{"sliding_attention", one}, {"full_attention", one}};
  const nlohmann::json differ = {{"sliding_attention", one}, {"full_attention", other}};
  const auto config = ReadWith("gemma2", {{"rope_parameters", same}});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope_theta, 5e4);
  EXPECT_EQ(config->rope_scaling.factor, 2.0);
  ExpectRefused(ReadWith("gemma2", {{"rope_parameters", differ}}),
                {"rope_parameters.sliding_attention", "different"});
  // A type that no layer has does not count.
  EXPECT_EQ(ReadWith("llama", {{"rope_parameters", differ}})->rope_theta, 1e6);
  ExpectRefused(ReadWith("gemma2", {{"rope_parameters", {{"full_attention", one}}}}),
                {"rope_parameters.sliding_attention", "missing"});
  ExpectRefused(ReadWith("gemma2", {{"rope_parameters", {{"global", one}}}}), {"rope_parameters.global"});
  // The config's own theta stands in for a missing one.
  const nlohmann::json bare = {{"rope_type", "default"}};
  EXPECT_EQ(ReadWith("gemma2", {{"rope_theta", 2e4},
                                {"rope_parameters", {{"sliding_attention", bare}, {"full_attention", bare}}}})
                ->rope_theta,
            2e4);
}

TEST(RopeFields, RefuseAnUnknownKindByName) {
  for (const char* kind : {"su", "mrope", "ntk", "proportional"}) {
    ExpectRefused(ReadLlama({{"rope_scaling", {{"type", kind}, {"factor", 2.0}}}}),
                  {"rope_scaling.rope_type", kind, "default, linear, llama3, yarn, dynamic, longrope"});
    ExpectRefused(ReadLlama({{"rope_parameters", {{"rope_type", kind}}}}),
                  {"rope_parameters.rope_type", kind});
  }
}

TEST(RopeFields, RefuseFieldsWithoutAKind) {
  ExpectRefused(ReadLlama({{"rope_scaling", {{"factor", 2.0}}}}),
                {"rope_scaling.rope_type is missing", "factor"});
  ExpectRefused(ReadLlama({{"rope_parameters", {{"factor", 2.0}, {"rope_theta", 1e4}}}}),
                {"rope_parameters.rope_type is missing"});
}

TEST(RopeFields, RefusePartialRotationWhereverItStands) {
  const nlohmann::json half = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  ExpectRefused(ReadLlama({{"rope_parameters", half}}), {"rope_parameters.partial_rotary_factor"});
  ExpectRefused(ReadLlama({{"rope_scaling", half}}), {"rope_scaling.partial_rotary_factor"});
  EXPECT_TRUE(ReadLlama({{"partial_rotary_factor", 1.0}}).ok());
}

TEST(RopeFields, RefuseAMissingFactor) {
  for (const char* kind : {"linear", "dynamic", "llama3"}) {
    ExpectRefused(ReadLlama({{"rope_scaling", {{"rope_type", kind}}}}), {"rope_scaling.factor is missing"});
  }
  ExpectRefused(ReadLlama({{"rope_scaling",
                            {{"rope_type", "llama3"},
                             {"factor", 8.0},
                             {"low_freq_factor", 4.0},
                             {"high_freq_factor", 1.0},
                             {"original_max_position_embeddings", 64}}}}),
                {"high_freq_factor is 1", "low_freq_factor"});
}

TEST(RopeFields, OfDynamicCountFromMaxPositions) {
  const auto config = ReadLlama(Scaling({{"type", "dynamic"}, {"factor", 2.0}}));
  EXPECT_EQ(config->rope_scaling.original_max_positions, 4096);
  EXPECT_EQ(config->rope_scaling.attention_factor, 1.0);
}

// transformers has no limit; a prompt that the scaling is meant for must not be refused.
TEST(RopeFields, StretchTheLongestPrompt) {
  const auto longest = [](const nlohmann::json& scaling) {
    return ReadLlama(Scaling(scaling))->max_positions;
  };
  EXPECT_EQ(longest(nullptr), 4096);
  EXPECT_EQ(longest({{"type", "linear"}, {"factor", 2.5}}), 10240);
  EXPECT_EQ(longest({{"type", "linear"}, {"factor", 0.5}}), 4096);
  EXPECT_EQ(longest({{"type", "yarn"}, {"factor", 4.0}}), 16384);
  // A length that is written stretched already.
  EXPECT_EQ(longest({{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}}), 4096);
  EXPECT_EQ(longest({{"type", "dynamic"}, {"factor", 2.0}}), 1 << 20);
}

TEST(RopeFields, OfYarnFallBack) {
  const auto config = ReadLlama(Scaling({{"type", "yarn"}, {"factor", 4.0}}));
  ASSERT_TRUE(config.ok()) << config.status();
  const RopeScaling& yarn = config->rope_scaling;
  EXPECT_EQ(yarn.original_max_positions, 4096);
  EXPECT_EQ(yarn.beta_fast, 32.0);
  EXPECT_EQ(yarn.beta_slow, 1.0);
  EXPECT_TRUE(yarn.truncate);
  EXPECT_DOUBLE_EQ(yarn.attention_factor, 1.1386294361119891);  // 0.1 ln 4 + 1
  const auto bare = ReadLlama(Scaling({{"type", "yarn"}, {"original_max_position_embeddings", 512}}));
  EXPECT_EQ(bare->rope_scaling.factor, 8.0);
  // Zero and null mean missing, except of truncate.
  const auto zero = ReadLlama(Scaling(
      {{"type", "yarn"}, {"factor", 0.5}, {"beta_fast", 0}, {"beta_slow", nullptr}, {"truncate", nullptr}}));
  EXPECT_EQ(zero->rope_scaling.beta_fast, 32.0);
  EXPECT_EQ(zero->rope_scaling.beta_slow, 1.0);
  EXPECT_FALSE(zero->rope_scaling.truncate);
  EXPECT_EQ(zero->rope_scaling.attention_factor, 1.0);
}

TEST(RopeFields, OfYarnWeighMagnitudes) {
  const auto factor = [](const nlohmann::json& more) {
    nlohmann::json fields = {{"type", "yarn"}, {"factor", 40}, {"original_max_position_embeddings", 4096}};
    fields.update(more);
    return ReadLlama(Scaling(fields))->rope_scaling.attention_factor;
  };
  EXPECT_EQ(factor({{"mscale", 0.707}, {"mscale_all_dim", 0.707}}), 1.0);
  EXPECT_DOUBLE_EQ(factor({{"mscale", 1.0}, {"mscale_all_dim", 0.5}}),
                   (0.1 * std::log(40.0) + 1) / (0.05 * std::log(40.0) + 1));
  // One alone does not count.
  EXPECT_DOUBLE_EQ(factor({{"mscale", 0.707}, {"mscale_all_dim", 0}}), 0.1 * std::log(40.0) + 1);
  EXPECT_EQ(factor({{"mscale", 1.0}, {"mscale_all_dim", 0.5}, {"attention_factor", 1.25}}), 1.25);
}

TEST(RopeFields, OfYarnThatCannotBeAreRefused) {
  ExpectRefused(
      ReadLlama(Scaling({{"type", "yarn"}, {"factor", 4.0}, {"beta_fast", 1.0}, {"beta_slow", 32.0}})),
      {"beta_fast is 1", "beta_slow"});
  ExpectRefused(
      ReadLlama({{"max_position_embeddings", 4096},
                 {"original_max_position_embeddings", 512},
                 {"rope_scaling",
                  {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}}}}),
      {"rope_scaling.original_max_position_embeddings is 1024", "512"});
}

nlohmann::json LongRope(size_t entries) {
  return {{"rope_type", "longrope"},
          {"short_factor", std::vector<double>(8, 1.0)},
          {"long_factor", std::vector<double>(entries, 4.0)}};
}

TEST(RopeFields, OfLongRopeHaveAnEntryForEachPair) {
  nlohmann::json scaling = LongRope(8);
  scaling["original_max_position_embeddings"] = 512;
  const auto config = ReadLlama(Scaling(scaling));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->rope_scaling.long_factor, SizeIs(8));
  EXPECT_THAT(config->rope_scaling.long_factor, Each(4.0));
  EXPECT_THAT(config->rope_scaling.short_factor, Each(1.0));
  // The ratio of the lengths, 8, where no factor is given: sqrt(1 + ln 8 / ln 512).
  EXPECT_DOUBLE_EQ(config->rope_scaling.attention_factor, std::sqrt(4.0 / 3.0));
  ExpectRefused(ReadLlama(Scaling(LongRope(7))), {"rope_scaling.long_factor is a list of 7", "8 numbers"});
  scaling["short_factor"] = {1, 1, 1, 1, 1, 1, 1, "one"};
  ExpectRefused(ReadLlama(Scaling(scaling)), {"rope_scaling.short_factor[7]", "\"one\""});
  scaling.erase("short_factor");
  ExpectRefused(ReadLlama(Scaling(scaling)), {"rope_scaling.short_factor is missing"});
}

TEST(RopeFields, OfLongRopeTakeTheirLengthFromBesideTheScalingToo) {
  nlohmann::json patch = Scaling(LongRope(8));
  patch["original_max_position_embeddings"] = 512;
  EXPECT_EQ(ReadLlama(patch)->rope_scaling.original_max_positions, 512);
  patch["rope_scaling"]["factor"] = 64.0;  // sqrt(1 + ln 64 / ln 512)
  EXPECT_DOUBLE_EQ(ReadLlama(patch)->rope_scaling.attention_factor, std::sqrt(5.0 / 3.0));
  patch["rope_scaling"]["attention_factor"] = 1.5;
  EXPECT_EQ(ReadLlama(patch)->rope_scaling.attention_factor, 1.5);
  // Without any length nothing is stretched.
  EXPECT_EQ(ReadLlama(Scaling(LongRope(8)))->rope_scaling.original_max_positions, 4096);
  EXPECT_EQ(ReadLlama(Scaling(LongRope(8)))->rope_scaling.attention_factor, 1.0);
}

// Within the bounds of its own field and yet 0 in fp32, in which the frequencies divide by it.
TEST(RopeFields, RefuseFactorsThatMakeAFrequencyInfinite) {
  nlohmann::json scaling = LongRope(8);
  scaling["original_max_position_embeddings"] = 512;
  for (const char* list : {"short_factor", "long_factor"}) {
    nlohmann::json tiny = scaling;
    tiny[list][1] = 1.01e-320;
    ExpectRefused(ReadLlama(Scaling(tiny)), {"rope_scaling is longrope", "infinite", "near 0"});
  }
  for (const char* kind : {"linear", "yarn"}) {
    ExpectRefused(ReadLlama(Scaling({{"type", kind}, {"factor", 1e-320}})), {"rope_scaling is ", "infinite"});
  }
  const nlohmann::json in_parameters = {{"rope_type", "linear"}, {"factor", 1e-320}};
  ExpectRefused(ReadLlama({{"rope_parameters", in_parameters}}), {"rope_parameters is linear"});
  // 0.1 mscale ln 4 + 1 = 0 below the line.
  ExpectRefused(
      ReadLlama(
          Scaling({{"type", "yarn"}, {"factor", std::exp(1.0)}, {"mscale", 1.0}, {"mscale_all_dim", -10.0}})),
      {"rope_scaling is yarn", "infinite"});
}

}  // namespace
}  // namespace ropelab::formats
