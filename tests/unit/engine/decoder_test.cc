// Every tensor of a forward pass against other implementations' (see the fixtures' notes), at several block
// sizes.
#include "worker/engine/decoder.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>
#include <tuple>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/plain_model.h"
#include "worker/engine/tensor_recorder.h"

namespace ropelab::engine {
namespace {

const std::vector<std::string> kFixtures = {"llama2_a", "llama3_a", "llama3bf16_a", "mistral_a",
                                            "qwen2_a",  "qwen3_a",  "qwen2f16_a",   "gemma_a",
                                            "gemma2_a", "olmo2_a",  "stories260K"};

double Tolerance(const std::string& name) {
  return name == "attn_probs" ? 5e-5 : name == "input_ids" ? 0 : 2e-4;
}

using Tensors = std::map<std::string, at::Tensor>;

// Every tensor of one prompt. The distances are printed at the block size that the worker uses.
void ExpectEqual(const std::string& name, const Tensors& expected, int64_t block_rows) {
  std::vector<std::string> names;
  for (const auto& [tensor, value] : expected) names.push_back(tensor);
  const auto got = InspectPrompt(*LoadFixture(name), Ids(expected.at("input_ids")), names,
                                 {.block_rows = block_rows, .logit_rows = {}});
  ASSERT_TRUE(got.ok()) << got.status();
  std::stringstream distances;
  for (const auto& [tensor, value] : expected) {
    const double distance = Distance(got->at(tensor), value);
    EXPECT_LE(distance, Tolerance(tensor)) << tensor;
    distances << " " << tensor << " " << distance;
  }
  if (block_rows == kBlockRows) std::cout << name << ":" << distances.str() << std::endl;
}

class DecoderParity : public testing::TestWithParam<std::tuple<std::string, int64_t>> {};

TEST_P(DecoderParity, EqualsAnotherImplementation) {
  const auto& [name, block_rows] = GetParam();
  ROPELAB_NEED_FIXTURE(name);
  ExpectEqual(name, ExpectedTensors(name), block_rows);
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderParity,
                         testing::Combine(testing::ValuesIn(kFixtures), testing::Values(1, 7, 64, 1 << 20)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_rows" + std::to_string(std::get<1>(info.param));
                         });

class BatchParity : public testing::TestWithParam<std::string> {};

// A batch's tensors have its prompts first; each prompt goes through by itself.
TEST_P(BatchParity, EachPromptEqualsAnotherImplementation) {
  ROPELAB_NEED_FIXTURE(GetParam());
  const Tensors batch = ExpectedTensors(GetParam(), "expected_batch2.safetensors");
  for (int64_t prompt = 0; prompt < batch.at("input_ids").size(0); ++prompt) {
    Tensors expected;
    for (const auto& [tensor, value] : batch) expected[tensor] = value[prompt];
    for (int64_t block_rows : {1, 7, 64, 1 << 20}) ExpectEqual(GetParam(), expected, block_rows);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BatchParity, testing::Values("gemma2_a", "qwen2_a"),
                         [](const auto& info) { return info.param; });

// Against the formulas in double: fp32 here strays less than the other implementation's.
class DecoderRounding : public testing::TestWithParam<const char*> {};

TEST_P(DecoderRounding, IsLessThanTheOtherImplementations) {
  ROPELAB_NEED_FIXTURE(GetParam());
  const auto model = LoadFixture(GetParam());
  const auto expected = ExpectedTensors(GetParam());
  const std::vector<int32_t> ids = Ids(expected.at("input_ids"));
  ForwardOptions options;
  options.logit_rows.resize(ids.size());
  std::iota(options.logit_rows.begin(), options.logit_rows.end(), 0);
  Observer nobody;
  const auto logits = Forward(*model, ids, options, nobody);
  ASSERT_TRUE(logits.ok()) << logits.status();
  const int64_t tokens = static_cast<int64_t>(ids.size());
  const PlainModel plain(*model, [&](int64_t) { return formats::InverseFrequencies(model->config, tokens); });
  const at::Tensor exact = plain.Logits(ids);
  const auto error = [&](const at::Tensor& got) {
    return (got.to(at::kDouble) - exact).square().mean().sqrt().item<double>();
  };
  std::cout << GetParam() << ": root mean square of the logits' error " << error(*logits) << ", theirs "
            << error(expected.at("logits")) << std::endl;
  EXPECT_LT(error(*logits), error(expected.at("logits")));
}

INSTANTIATE_TEST_SUITE_P(Models, DecoderRounding,
                         testing::Values("llama2_a", "llama3_a", "mistral_a", "qwen2_a", "qwen3_a", "gemma_a",
                                         "gemma2_a", "olmo2_a", "stories260K"));

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

// Distances to the fp32 run, largest and mean: one entry can move by much where attention is nearly tied; a
// slip in the order of roundings moves the mean.
TEST(Decoder, EveryFamilysHalfPrecisionsStayNearSinglePrecision) {
  for (const std::string& name : kFixtures) {
    ROPELAB_NEED_FIXTURE(name);
    const std::vector<int32_t> ids = Ids(ExpectedTensors(name).at("input_ids"));
    const std::vector<std::string> names = {"attn_probs", "logits"};
    const auto wide = InspectPrompt(*LoadFixture(name), ids, names, {});
    ASSERT_TRUE(wide.ok()) << wide.status();
    for (const auto& [dtype, share] : {std::pair{at::kBFloat16, 0.04}, std::pair{at::kHalf, 0.005}}) {
      const auto got = InspectPrompt(*LoadFixture(name, dtype), ids, names, {});
      ASSERT_TRUE(got.ok()) << got.status();
      std::cout << name << " " << dtype << ":";
      for (const std::string& tensor : names) {
        const at::Tensor difference = (got->at(tensor).to(at::kFloat) - wide->at(tensor)).abs();
        std::cout << " " << tensor << " largest " << difference.max().item<double>() << " mean "
                  << difference.mean().item<double>();
        EXPECT_LE(difference.mean().item<double>(), share * wide->at(tensor).abs().mean().item<double>())
            << name << " " << tensor << " " << dtype;
      }
      std::cout << std::endl;
    }
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
