// Decoding with a cache against the forward pass of the whole prompt, and draws against hand computation.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/engine/fixtures.h"
#include "worker/engine/decode_session.h"
#include "worker/engine/decoder.h"
#include "worker/engine/draw.h"

namespace ropelab::engine {
namespace {

class DecodeParity : public testing::TestWithParam<std::string> {};

TEST_P(DecodeParity, EveryStepGivesTheWholePromptsLogits) {
  ROPELAB_NEED_FIXTURE(GetParam());
  const auto model = LoadFixture(GetParam());
  const auto expected = ExpectedTensors(GetParam());
  const std::vector<int32_t> ids = Ids(expected.at("input_ids"));
  DecodeSession session(*model, static_cast<int64_t>(ids.size()));
  for (size_t t = 0; t < ids.size(); ++t) {
    std::array<int32_t, kDecodeRows> row;
    for (size_t r = 0; r < row.size(); ++r) row[r] = r == 3 ? ids[t] : static_cast<int32_t>((t + r) % 100);
    const at::Tensor logits = session.Step(row);
    EXPECT_LE(Distance(logits[3], expected.at("logits")[static_cast<int64_t>(t)]), 1e-4) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DecodeParity,
                         testing::Values("llama2_a", "llama3_a", "llama3bf16_a", "mistral_a", "qwen2_a",
                                         "qwen3_a", "qwen2f16_a", "gemma_a", "gemma2_a", "olmo2_a",
                                         "stories260K"));

TEST(DecodeSession, ARowDoesNotDependOnItsNeighbours) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  DecodeSession alone(*model, 40), together(*model, 40);
  for (int32_t t = 0; t < 40; ++t) {
    std::array<int32_t, kDecodeRows> padded, full;
    padded.fill(1);
    for (int32_t r = 0; r < kDecodeRows; ++r) full[r] = (t * 37 + r * 11) % 512;
    padded[0] = full[0];
    ASSERT_TRUE(at::equal(alone.Step(padded)[0], together.Step(full)[0])) << t;
  }
}

TEST(DecodeSession, AWindowHidesOlderKeys) {
  ROPELAB_NEED_FIXTURE("llama3_a");
  model::LoadedModel model = *LoadFixture("llama3_a");
  model.config.sliding_window.assign(static_cast<size_t>(model.config.layers), 6);
  const std::vector<int32_t> ids = Ids(ExpectedTensors("llama3_a").at("input_ids"));
  ForwardOptions options;
  options.logit_rows = {static_cast<int64_t>(ids.size()) - 1};
  Observer nobody;
  const auto whole = Forward(model, ids, options, nobody);
  ASSERT_TRUE(whole.ok());
  DecodeSession session(model, static_cast<int64_t>(ids.size()));
  at::Tensor logits;
  for (int32_t id : ids) {
    std::array<int32_t, kDecodeRows> row;
    row.fill(id);
    logits = session.Step(row);
  }
  EXPECT_LE(Distance(logits[0], (*whole)[0]), 1e-4);
}

TEST(Draw, InvertsTheCumulatedSoftmax) {
  // softmax of ln 1, ln 2, ln 5 is 1/8, 2/8, 5/8.
  const std::vector<float> logits = {0.0f, 0.69314718f, 1.6094379f};
  std::vector<double> scratch;
  EXPECT_EQ(DrawToken(logits, 1, 0.0, scratch), 0);
  EXPECT_EQ(DrawToken(logits, 1, 0.1249, scratch), 0);
  EXPECT_EQ(DrawToken(logits, 1, 0.1251, scratch), 1);
  EXPECT_EQ(DrawToken(logits, 1, 0.3749, scratch), 1);
  EXPECT_EQ(DrawToken(logits, 1, 0.3751, scratch), 2);
  EXPECT_EQ(DrawToken(logits, 1, 0x1.fffffffffffffp-1, scratch), 2);
  // At temperature 1/2 the weights are squared: 1, 4, 25 of 30.
  EXPECT_EQ(DrawToken(logits, 0.5, 0.99 * 5 / 30, scratch), 1);
  EXPECT_EQ(DrawToken(logits, 0.5, 1.01 * 5 / 30, scratch), 2);
}

TEST(Draw, NeverTakesATokenThatCannotCome) {
  const std::vector<float> logits = {0.0f, 0.0f, -1e30f};
  std::vector<double> scratch;
  EXPECT_EQ(DrawToken(logits, 1e-3, 0x1.fffffffffffffp-1, scratch), 1);
}

TEST(Draw, TheFirstOfEqualLogitsIsTheLargest) {
  EXPECT_EQ(LargestLogit(std::vector<float>{1, 3, 3, 2}), 1);
}

}  // namespace
}  // namespace ropelab::engine
