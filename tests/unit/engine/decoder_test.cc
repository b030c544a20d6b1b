// Every tensor of a forward pass against other implementations' (see the fixtures' notes), at several block
// sizes.
#include "worker/engine/decoder.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "tests/unit/engine/fixtures.h"
#include "worker/engine/tensor_recorder.h"

namespace ropelab::engine {
namespace {

double Tolerance(const std::string& name) {
  return name == "attn_probs" ? 5e-5 : name == "input_ids" ? 0 : 2e-4;
}

class DecoderParity : public testing::TestWithParam<std::tuple<std::string, int64_t>> {};

TEST_P(DecoderParity, EqualsAnotherImplementation) {
  const auto& [name, block_rows] = GetParam();
  ROPELAB_NEED_FIXTURE(name);
  const auto model = LoadFixture(name);
  const auto expected = ExpectedTensors(name);
  std::vector<std::string> names;
  for (const auto& [tensor, value] : expected) names.push_back(tensor);
  const auto got = InspectPrompt(*model, Ids(expected.at("input_ids")), names,
                                 {.block_rows = block_rows, .logit_rows = {}});
  ASSERT_TRUE(got.ok()) << got.status();
  for (const auto& [tensor, value] : expected) {
    EXPECT_LE(Distance(got->at(tensor), value), Tolerance(tensor)) << tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderParity,
                         testing::Combine(testing::Values("llama2_a", "llama3_a", "llama3bf16_a",
                                                          "stories260K"),
                                          testing::Values(1, 7, 64, 1 << 20)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_rows" + std::to_string(std::get<1>(info.param));
                         });

TEST(Decoder, GivesTheSameBitsWithOneThreadAndWithSeveral) {
  ROPELAB_NEED_FIXTURE("stories260K");
  std::vector<int32_t> ids;
  for (int i = 0; i < 500; ++i) ids.push_back((i * 7919 + 3) % 512);
  const std::vector<std::string> names = {"attn_probs", "hidden"};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto model = LoadFixture("stories260K", dtype);
    at::set_num_threads(1);
    const auto one = InspectPrompt(*model, ids, names, {});
    at::set_num_threads(4);
    const auto several = InspectPrompt(*model, ids, names, {});
    at::set_num_threads(1);
    ASSERT_TRUE(one.ok() && several.ok());
    for (const std::string& name : names)
      EXPECT_TRUE(at::equal(one->at(name), several->at(name))) << name << dtype;
  }
}

TEST(Decoder, HalfPrecisionsStayNearSinglePrecision) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto expected = ExpectedTensors("stories260K");
  const std::vector<int32_t> ids = Ids(expected.at("input_ids"));
  // An entry can move by several hundredths in bf16 (8 bits of mantissa); the mean over all entries is what a
  // slip would move.
  for (const auto& [dtype, tolerance] : {std::pair{at::kBFloat16, 2e-3}, std::pair{at::kHalf, 3e-4}}) {
    const auto got = InspectPrompt(*LoadFixture("stories260K", dtype), ids, {"attn_probs", "logits"}, {});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->at("logits").scalar_type(), dtype);
    const at::Tensor difference = got->at("attn_probs").to(at::kFloat) - expected.at("attn_probs");
    EXPECT_LE(difference.abs().mean().item<double>(), tolerance) << dtype;
  }
}

TEST(Decoder, ASlidingWindowHidesOlderKeysAndSkipsThem) {
  ROPELAB_NEED_FIXTURE("llama2_a");
  model::LoadedModel model = *LoadFixture("llama2_a");
  const std::vector<int32_t> ids = Ids(ExpectedTensors("llama2_a").at("input_ids"));
  const auto full = InspectPrompt(model, ids, {"attn_probs"}, {});
  model.config.sliding_window.assign(static_cast<size_t>(model.config.layers), 5);
  for (int64_t block_rows : {1, 7, 64}) {
    const auto windowed =
        InspectPrompt(model, ids, {"attn_probs"}, {.block_rows = block_rows, .logit_rows = {}});
    ASSERT_TRUE(windowed.ok());
    // Layer 0 sees the same queries and keys: its rows are the full rows cut to 5 keys and normalized again.
    const at::Tensor all = at::ones({64, 64});
    const at::Tensor kept = full->at("attn_probs")[0] * all.tril() * all.triu(-4);
    EXPECT_LE(Distance(windowed->at("attn_probs")[0], kept / kept.sum(-1, true)), 1e-6);
  }
}

TEST(Decoder, NamesTheLayerWhoseAttentionIsNotANumber) {
  ROPELAB_NEED_FIXTURE("llama2_a");
  model::LoadedModel model = *LoadFixture("llama2_a");
  model.weights.layers[1].query = at::full_like(model.weights.layers[1].query, std::nan(""));
  const auto got = InspectPrompt(model, std::vector<int32_t>{1, 2, 3}, {"logits"}, {});
  EXPECT_EQ(got.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(got.status().message()).find("layer 1"), std::string::npos) << got.status();
}

TEST(Decoder, NamesALogitThatIsNotANumber) {
  ROPELAB_NEED_FIXTURE("llama2_a");
  model::LoadedModel model = *LoadFixture("llama2_a");
  model.weights.layers[2].down =
      at::full_like(model.weights.layers[2].down, std::numeric_limits<float>::infinity());
  const auto got = InspectPrompt(model, std::vector<int32_t>{1, 2, 3}, {"logits"}, {});
  EXPECT_EQ(got.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CheckPrompt, RefusesWhatTheModelCannotRead) {
  formats::ModelConfig config;
  config.vocabulary = 10;
  config.max_positions = 3;
  const auto message = [&](const std::vector<int32_t>& ids) {
    return std::string(CheckPrompt(ids, config).message());
  };
  EXPECT_TRUE(CheckPrompt(std::vector<int32_t>{0, 9, 5}, config).ok());
  EXPECT_NE(message({}).find("no tokens"), std::string::npos);
  EXPECT_NE(message({1, 1, 1, 1}).find("4 tokens, the model takes at most 3"), std::string::npos);
  EXPECT_NE(message({1, 10}).find("token id 10 at position 1"), std::string::npos);
  EXPECT_NE(message({-1}).find("token id -1"), std::string::npos);
}

}  // namespace
}  // namespace ropelab::engine
