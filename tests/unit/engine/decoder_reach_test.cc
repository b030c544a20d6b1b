// Passes that start at a layer, end at one, or take edited layers: the same bits as whole passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/unit/engine/made_model.h"
#include "worker/engine/decoder.h"

namespace ropelab::engine {
namespace {

using testing::HasSubstr;

std::vector<int32_t> SomeIds(int count) {
  std::vector<int32_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back((i * i + 3 * i) % 90);
  return ids;
}

formats::ModelConfig FourLayers() {
  formats::ModelConfig config = SmallConfig();
  config.layers = 4;
  config.sliding_window = {0, 20, 0, 20};
  return config;
}

// What a pass shows between layers, and whose calls come.
struct Shown : Observer {
  void Hidden(int64_t layer, const at::Tensor& hidden) override {
    layers.push_back(layer);
    residuals.push_back(hidden.clone());
  }
  absl::Status LayerDone(int64_t layer) override {
    done.push_back(layer);
    return absl::OkStatus();
  }
  std::vector<int64_t> layers, done;
  std::vector<at::Tensor> residuals;
};

ForwardOptions AllLogits(size_t tokens) {
  ForwardOptions options;
  options.logit_rows.resize(tokens);
  std::iota(options.logit_rows.begin(), options.logit_rows.end(), 0);
  return options;
}

TEST(DecoderReach, PiecesOfAPassAreThePassBitForBit) {
  const std::vector<int32_t> ids = SomeIds(150);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const model::LoadedModel model = MadeModel(FourLayers(), dtype);
    Shown whole;
    const auto logits = Forward(model, ids, AllLogits(ids.size()), whole);
    ASSERT_TRUE(logits.ok()) << logits.status();
    ASSERT_EQ(whole.layers.size(), 5u);
    for (int64_t first = 0; first < 4; ++first) {
      ForwardOptions options = AllLogits(ids.size());
      options.start = LayerInput{first, whole.residuals[first]};
      Shown rest;
      const auto from = Forward(model, ids, options, rest);
      ASSERT_TRUE(from.ok()) << from.status();
      EXPECT_TRUE(at::equal(*from, *logits)) << first << dtype;
      EXPECT_EQ(rest.layers.front(), first);
      EXPECT_EQ(rest.done.size(), static_cast<size_t>(4 - first));
      for (int64_t end = first + 1; end < 4; ++end) {
        options.end_layer = end;
        Shown middle;
        const auto none = Forward(model, ids, options, middle);
        ASSERT_TRUE(none.ok()) << none.status();
        EXPECT_EQ(none->size(0), 0);
        EXPECT_EQ(middle.layers.back(), end);
        EXPECT_EQ(middle.done.size(), static_cast<size_t>(end - first));
        EXPECT_TRUE(at::equal(middle.residuals.back(), whole.residuals[end])) << first << end << dtype;
      }
    }
    // What was given to start from is as it was.
    Shown again;
    ASSERT_TRUE(Forward(model, ids, {}, again).ok());
    for (size_t layer = 0; layer < 5; ++layer)
      EXPECT_TRUE(at::equal(again.residuals[layer], whole.residuals[layer]));
  }
}

TEST(DecoderReach, EditedLayersAreTheModelThatHasThoseLayers) {
  const std::vector<int32_t> ids = SomeIds(150);
  const model::LoadedModel model = MadeModel(FourLayers());
  EditedLayers edited = {{1, model.weights.layers[1]}, {3, model.weights.layers[3]}};
  edited[1].query = edited[1].query * 0.5;
  edited[3].key = edited[3].key.flip(0);
  model::LoadedModel other = model;
  for (const auto& [layer, weights] : edited) other.weights.layers[layer] = weights;

  Shown base, shown;
  const auto plain = Forward(model, ids, AllLogits(ids.size()), base);
  const auto expected = Forward(other, ids, AllLogits(ids.size()), shown);
  ForwardOptions options = AllLogits(ids.size());
  options.edited_layers = &edited;
  const auto whole = Forward(model, ids, options, shown);
  options.start = LayerInput{1, base.residuals[1]};
  const auto from = Forward(model, ids, options, shown);
  ASSERT_TRUE(plain.ok() && expected.ok() && whole.ok() && from.ok());
  EXPECT_FALSE(at::equal(*plain, *expected));
  EXPECT_TRUE(at::equal(*whole, *expected));
  EXPECT_TRUE(at::equal(*from, *expected));
}

TEST(DecoderReach, RefusesWhatIsNotInTheModelOrDoesNotFitThePrompt) {
  const model::LoadedModel model = MadeModel(FourLayers());
  const std::vector<int32_t> ids = SomeIds(5);
  Observer nobody;
  const auto refusal = [&](std::optional<LayerInput> start, std::optional<int64_t> end) {
    ForwardOptions options;
    options.start = start;
    options.end_layer = end;
    const absl::Status status = Forward(model, ids, options, nobody).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  const at::Tensor fits = at::zeros({5, 40});
  EXPECT_THAT(refusal({}, 0), HasSubstr("before layer 0"));
  EXPECT_THAT(refusal({}, 5), HasSubstr("before layer 5: the model has 4"));
  EXPECT_THAT(refusal(LayerInput{-1, fits}, {}), HasSubstr("from layer -1"));
  EXPECT_THAT(refusal(LayerInput{4, fits}, {}), HasSubstr("from layer 4"));
  EXPECT_THAT(refusal(LayerInput{2, fits}, 2), HasSubstr("from layer 2 that ends before layer 2"));
  for (const at::Tensor& residual : {at::Tensor(), at::zeros({4, 40}), at::zeros({5, 41}),
                                     at::zeros({1, 5, 40}), at::zeros({5, 40}, at::kHalf)}) {
    EXPECT_THAT(refusal(LayerInput{2, residual}, {}), HasSubstr("enters layer 2 is not [5, 40]"));
  }
}

}  // namespace
}  // namespace ropelab::engine
