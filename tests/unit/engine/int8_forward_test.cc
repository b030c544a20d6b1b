// A model whose projections are int8 computes what the same model computes with the numbers that they stand
// for, bit for bit.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <array>

#include <vector>

#include "tests/unit/engine/counted_memory.h"
#include "tests/unit/engine/made_model.h"
#include "worker/engine/decode_session.h"
#include "worker/engine/decoder.h"
#include "worker/engine/edited_weights.h"
#include "worker/engine/layer_ops.h"
#include "worker/model/int8_weights.h"

namespace ropelab::engine {
namespace {

model::LoadedModel RoundedModel() {
  formats::ModelConfig config = SmallConfig();
  config.qkv_bias = config.mlp_bias = true;
  model::LoadedModel model = MadeModel(config);
  for (model::LayerWeights& layer : model.weights.layers) {
    for (const model::ScaledProjection& projection : model::kScaledProjections) {
      const model::Int8Rows rows = model::RoundToInt8(layer.*projection.weight);
      layer.*projection.weight = rows.values;
      layer.*projection.scale = rows.scale;
    }
  }
  return model;
}

model::LoadedModel WidenedModel(const model::LoadedModel& model) {
  model::LoadedModel wide = model;
  for (model::LayerWeights& layer : wide.weights.layers) layer = model::Widened(layer);
  return wide;
}

std::vector<int32_t> Prompt() {
  std::vector<int32_t> ids;
  for (int i = 0; i < 140; ++i) ids.push_back((i * i + 3 * i) % 90);
  return ids;
}

at::Tensor Logits(const model::LoadedModel& model, const EditedLayers* edited = nullptr) {
  Observer nobody;
  ForwardOptions options;
  for (int64_t row = 0; row < 140; ++row) options.logit_rows.push_back(row);
  options.edited_layers = edited;
  const auto logits = Forward(model, Prompt(), options, nobody);
  EXPECT_TRUE(logits.ok()) << logits.status();
  return *logits;
}

TEST(Int8Forward, EqualsTheNumbersThatItStandsForBitForBit) {
  const model::LoadedModel model = RoundedModel(), wide = WidenedModel(model);
  EXPECT_TRUE(at::equal(Logits(model), Logits(wide)));
  DecodeSession narrow_session(model, 8), wide_session(wide, 8);
  for (const int32_t id : {3, 14, 15, 9}) {
    std::array<int32_t, kDecodeRows> ids;
    ids.fill(id);
    EXPECT_TRUE(at::equal(narrow_session.Step(ids), wide_session.Step(ids)));
  }
}

TEST(Int8Forward, ALowRankEditLeavesEveryOtherNumberAsItIs) {
  const model::LoadedModel model = RoundedModel(), wide = WidenedModel(model);
  const LowRanks ranks = {{{1, Projection::kQuery, 2}, 3}, {{1, Projection::kKey, 0}, 4}};
  const EditedLayers narrow_edit = {{1, LowRankLayer(model, 1, ranks)}};
  const EditedLayers wide_edit = {{1, LowRankLayer(wide, 1, ranks)}};
  EXPECT_TRUE(at::equal(Logits(model, &narrow_edit), Logits(wide, &wide_edit)));
  EXPECT_FALSE(at::equal(Logits(model, &narrow_edit), Logits(model)));
}

TEST(Int8Forward, AProductWithoutItsScalesIsRefused) {
  const model::LoadedModel model = RoundedModel();
  EXPECT_THROW(Linear(at::ones({1, 40}), model.weights.layers[0].query, {}), c10::Error);
}

TEST(Int8Forward, StaysUnderWhatIsSaid) {
  const CountedMemory counted;
  for (const int64_t hidden : {40, 600}) {
    formats::ModelConfig config = SmallConfig();
    config.hidden_size = hidden;
    model::LoadedModel model = MadeModel(config);
    for (model::LayerWeights& layer : model.weights.layers) {
      for (const model::ScaledProjection& projection : model::kScaledProjections) {
        const model::Int8Rows rows = model::RoundToInt8(layer.*projection.weight);
        layer.*projection.weight = rows.values;
        layer.*projection.scale = rows.scale;
      }
    }
    const int64_t forward = CountedMemory::Peak([&] {
      Observer nobody;
      ASSERT_TRUE(Forward(model, Prompt(), {}, nobody).ok());
    });
    EXPECT_LE(forward, ForwardBytes(model, 140, 0, at::get_num_threads()));
    const int64_t decoding = CountedMemory::Peak([&] {
      DecodeSession session(model, 8);
      session.Step({1, 2, 3, 4, 5, 6, 7, 8});
    });
    EXPECT_LE(decoding, DecodeSession::Bytes(model, 8));
    EXPECT_GT(forward, model::WidenedBytes(model.weights));
    EXPECT_GT(decoding, 2 * model::WidenedBytes(model.weights));
  }
}

}  // namespace
}  // namespace ropelab::engine
