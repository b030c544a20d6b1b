// Fourier fits of heads against numpy's figures on the fixtures' own tensors, and of heads that are nothing
// but cosines.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/formats/temporary_directory.h"
#include "tests/unit/measure/frequency_fakes.h"
#include "worker/formats/plant.h"

namespace ropelab::measure {
namespace {

using engine::ExpectedTensors;
using engine::FixtureModel;
using engine::Ids;
using engine::LoadFixture;
using engine::MadeModel;
using engine::SmallConfig;
using ::testing::HasSubstr;

// In float64 from input, q_pre, k_pre, q_rot and k_rot of expected.safetensors and from the definitions
// alone: the means and the cosines by numpy, frequencies from config.json.
struct NumpyFit {
  const char* model;
  int32_t layer, head;
  double r2, r2_centred, eta2;
};
constexpr NumpyFit kNumpyFits[] = {
    {"llama2_a", 0, 3, -2.987287014e-05, 0.0004951661962, 0.02493305498},
    {"llama2_a", 2, 1, 0.004258494631, 0.001733896477, 0.03126413625},
    {"llama3_a", 0, 3, -9.498395883e-05, -1.180804307e-05, 0.03631909533},
    {"llama3_a", 2, 1, 2.022199042e-05, 0.003196608023, 0.0203365299},
    {"mistral_a", 0, 5, -0.000212330457, 8.0789696e-05, 0.02817543011},
    {"mistral_a", 2, 1, 0.03777058431, 0.04222979676, 0.05658251333},
    {"gemma2_a", 0, 3, 0.000481831407, 0.0009898373725, 0.02537105799},
    {"gemma2_a", 2, 1, 0.02540097396, 0.03575461872, 0.06291282402},
    {"qwen2_a", 0, 3, 0.01665805825, 0.01916388093, 0.04317888485},
    {"qwen2_a", 2, 1, 0.01707931388, 0.02768712835, 0.04294007906},
    {"qwen3_a", 0, 3, -0.0001078454709, -5.32462294e-05, 0.0299247736},
    {"qwen3_a", 2, 1, 0.00467667575, 0.007642787002, 0.03314657567},
    {"olmo2_a", 0, 3, -0.0009081315654, -0.0001632392695, 0.03130327986},
    {"olmo2_a", 2, 1, 0.006431040769, 0.005611642065, 0.042621889},
    {"stories260K", 0, 7, -0.0005311618302, -0.0001152680292, 0.02042054836},
    {"stories260K", 4, 1, 0.566789072, 0.7497151606, 0.5850701379},
};

TEST(FrequencyFits, EqualNumpysOnAnotherImplementationsQueriesAndKeys) {
  for (const NumpyFit& expected : kNumpyFits) {
    ROPELAB_NEED_FIXTURE(expected.model);
    const auto model = LoadFixture(expected.model);
    const std::vector<int32_t> ids = Ids(ExpectedTensors(expected.model).at("input_ids"));
    const ListRecorder recorder =
        Measured(FitsRequest({ids}, {{expected.layer, expected.head}}, *model), *model);
    ASSERT_EQ(recorder.readings.size(), 1u);
    const v1::HeadFit& fit = recorder.readings[0].head_fit();
    EXPECT_EQ(fit.layer(), expected.layer);
    EXPECT_EQ(fit.head(), expected.head);
    EXPECT_NEAR(fit.r2(), expected.r2, 1e-6) << expected.model;
    EXPECT_NEAR(fit.r2_centred(), expected.r2_centred, 1e-6) << expected.model;
    EXPECT_NEAR(fit.eta2(), expected.eta2, 1e-5 * expected.eta2) << expected.model;
  }
}

TEST(FrequencyFits, ExplainAPlantedHeadWhollyAndASilentOneNotAtAll) {
  for (const int64_t tokens : {int64_t{256}, int64_t{1500}}) {
    ropelab::unit::TemporaryDirectory directory;
    formats::PlantOptions options;
    options.out = directory.path() + "/planted";
    options.head_dim = 32;
    options.heads = 4;
    options.kv_heads = 2;
    options.context = tokens;
    options.slashes = {{0, 1, 5}, {0, 2, tokens / 3}};
    ASSERT_TRUE(formats::Plant(options).ok());
    const auto model = model::LoadModel(options.out, at::kFloat, at::kCPU, 0, [](int64_t, int64_t) {});
    ASSERT_TRUE(model.ok()) << model.status();
    std::vector<int32_t> ids(static_cast<size_t>(tokens));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 37) % 250);
    const ListRecorder recorder = Measured(FitsRequest({ids}, {{0, 1}, {0, 2}, {0, 3}}, **model), **model);
    ASSERT_EQ(recorder.readings.size(), 3u);
    for (const int planted : {0, 1}) {
      const v1::HeadFit& fit = recorder.readings[planted].head_fit();
      EXPECT_NEAR(fit.r2(), 1.0, 1e-6);
      EXPECT_NEAR(fit.r2_centred(), 1.0, 1e-6);
      EXPECT_NEAR(fit.eta2(), 1.0, 1e-6);
    }
    const v1::HeadFit& silent = recorder.readings[2].head_fit();
    EXPECT_TRUE(std::isnan(silent.r2()) && std::isnan(silent.r2_centred()) && std::isnan(silent.eta2()));
  }
}

// Queries and keys that are their biases: the logits are exactly the cosines, whatever scales and orders the
// frequencies.
TEST(FrequencyFits, ExplainConstantQueriesAndKeysUnderAScalingWithAttentionFactor) {
  formats::ModelConfig config = SmallConfig();
  config.qkv_bias = true;
  for (const auto kind : {formats::RopeScalingKind::kYarn, formats::RopeScalingKind::kLongRope}) {
    config.rope_scaling = {};
    config.rope_scaling.kind = kind;
    config.rope_scaling.factor = 4;
    config.rope_scaling.original_max_positions = 64;
    config.rope_scaling.attention_factor = 1.2;
    config.rope_scaling.short_factor = {1, 1, 1, 1, 1, 1};
    config.rope_scaling.long_factor = {900, 1, 30, 1, 1, 1};
    model::LoadedModel model = MadeModel(config);
    model.weights.layers[1].query.zero_();
    model.weights.layers[1].key.zero_();
    std::vector<int32_t> ids(200);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % 90);
    const ListRecorder recorder = Measured(FitsRequest({ids, ids}, {{0, 0}, {1, 0}, {1, 3}}, model), model);
    ASSERT_EQ(recorder.readings.size(), 6u);
    for (size_t i = 0; i < recorder.readings.size(); ++i) {
      const v1::HeadFit& fit = recorder.readings[i].head_fit();
      EXPECT_EQ(fit.sample(), static_cast<int64_t>(i / 3));
      if (fit.layer() == 0) {
        EXPECT_LT(fit.r2(), 0.9);
        continue;
      }
      EXPECT_NEAR(fit.r2(), 1.0, 1e-6);
      EXPECT_NEAR(fit.r2_centred(), 1.0, 1e-6);
      EXPECT_NEAR(fit.eta2(), 1.0, 1e-6);
    }
  }
}

TEST(FrequencyFits, GiveTheSameBitsWithAnyNumberOfThreads) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  std::vector<int32_t> ids(500);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 131 % 512);
  const v1::Measurement request = FitsRequest({ids, ids}, {{0, 1}, {0, 5}, {3, 2}}, *model);
  const int threads = at::get_num_threads();
  std::vector<std::string> first;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    std::vector<std::string> readings;
    for (const v1::Reading& reading : Measured(request, *model).readings) {
      readings.push_back(reading.SerializeAsString());
    }
    if (first.empty()) first = readings;
    EXPECT_EQ(readings, first) << count;
  }
  at::set_num_threads(threads);
}

TEST(FrequencyFits, OfOneTokenAreUndefined) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  const ListRecorder recorder = Measured(FitsRequest({{5}}, {{0, 1}}, model), model);
  const v1::HeadFit& fit = recorder.readings[0].head_fit();
  EXPECT_TRUE(std::isnan(fit.r2()) && std::isnan(fit.r2_centred()) && std::isnan(fit.eta2()));
}

TEST(FrequencyFits, RefuseWhatCannotBeMeasured) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  const auto refusal = [&](const v1::Measurement& request) {
    ListRecorder recorder;
    const absl::Status status = Measure(request, &model, {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  const v1::Measurement good = FitsRequest({{5, 6, 7}}, {{0, 1}}, model);
  v1::Measurement request = good;
  request.mutable_frequency_fits()->clear_means();
  EXPECT_THAT(refusal(request), HasSubstr("means holds 0 entries for 1 heads"));
  request = good;
  request.mutable_frequency_fits()->mutable_means(0)->add_key(1);
  EXPECT_THAT(refusal(request), HasSubstr("means of head L0H1 have 12 numbers for the query and 13"));
  request = good;
  request.mutable_frequency_fits()->mutable_means(0)->set_query(3, std::nan(""));
  EXPECT_THAT(refusal(request), HasSubstr("L0H1 hold a number that is NaN"));
  request = good;
  request.mutable_frequency_fits()->mutable_heads(0)->set_head(4);
  EXPECT_THAT(refusal(request), HasSubstr("L0H4 is not in the model"));
}

}  // namespace
}  // namespace ropelab::measure
