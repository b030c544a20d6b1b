// The views' blocks against the fixtures' own tensors, and principal directions against an SVD.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/list_recorder.h"
#include "tests/unit/measure/query_key_request.h"
#include "worker/measure/query_key_hidden.h"

namespace ropelab::measure {
namespace {

using engine::Distance;
using engine::ExpectedTensors;
using engine::FixtureModel;
using engine::Ids;
using engine::LoadFixture;
using testing::ElementsAre;

// Every tensor of a file of float32.
std::map<std::string, at::Tensor> TensorsOf(const std::string& file) {
  const auto ranges = formats::ParseSafetensorsHeader(file, "views.safetensors");
  EXPECT_TRUE(ranges.ok()) << ranges.status();
  std::map<std::string, at::Tensor> tensors;
  for (const formats::TensorRange& range : *ranges) {
    EXPECT_EQ(range.dtype, "F32");
    at::Tensor tensor = at::empty(range.shape, at::kFloat);
    file.copy(static_cast<char*>(tensor.data_ptr()), range.end - range.begin, range.begin);
    tensors[range.name] = tensor;
  }
  return tensors;
}

TEST(QueryKeyViews, HoldTheFirstRowsOfTheNamedHeadsAndOfTheirLayers) {
  ROPELAB_NEED_FIXTURE("mistral_a");  // six query heads share two KV heads
  const auto model = LoadFixture("mistral_a");
  const auto expected = ExpectedTensors("mistral_a");
  const std::vector<int32_t> ids = Ids(expected.at("input_ids"));
  v1::Measurement request =
      QueryKeyRequest({ids, {ids.begin() + 5, ids.end()}}, 0.95, v1::HiddenStage::RESIDUAL);
  NameHeads(request, {{0, 2}, {0, 3}, {2, 5}}, 50, v1::HiddenView::FIRST_COORDINATES);
  ListRecorder recorder;
  ASSERT_TRUE(Measure(request, model.get(), {}, recorder).ok());
  ASSERT_EQ(recorder.readings.size(), 7u);
  ASSERT_EQ(recorder.artifacts.size(), 1u);
  const v1::ViewTensors& said = recorder.readings[3].views();
  EXPECT_EQ(said.artifact(), recorder.artifacts[0].name);
  EXPECT_THAT(said.tensors(),
              ElementsAre("L0H2.q", "L0H2.k", "L0H3.q", "L0H3.k", "L0.h", "L2H5.q", "L2H5.k", "L2.h"));
  const auto tensors = TensorsOf(recorder.artifacts[0].bytes);
  ASSERT_EQ(tensors.size(), 8u);
  const auto rows = [&](const char* name, int layer, int head) {
    return expected.at(name)[layer][head].narrow(0, 0, 50);
  };
  EXPECT_LT(Distance(tensors.at("L0H2.q"), rows("q_pre", 0, 2)), 2e-4);
  EXPECT_LT(Distance(tensors.at("L0H3.q"), rows("q_pre", 0, 3)), 2e-4);
  EXPECT_LT(Distance(tensors.at("L2H5.q"), rows("q_pre", 2, 5)), 2e-4);
  EXPECT_LT(Distance(tensors.at("L0H2.k"), rows("k_pre", 0, 0)), 2e-4);
  EXPECT_LT(Distance(tensors.at("L0H3.k"), rows("k_pre", 0, 1)), 2e-4);
  EXPECT_LT(Distance(tensors.at("L2H5.k"), rows("k_pre", 2, 1)), 2e-4);
  for (const int layer : {0, 2}) {
    EXPECT_LT(Distance(tensors.at("L" + std::to_string(layer) + ".h"),
                       expected.at("hidden")[layer].narrow(0, 0, 50).narrow(1, 0, 8)),
              2e-4);
  }
}

TEST(QueryKeyViews, RowsBeyondThePromptAreLeftOutAndOtherBlocksHaveNone) {
  const model::LoadedModel model = engine::MadeModel(engine::SmallConfig());
  v1::Measurement request = QueryKeyRequest({{1, 2, 3, 4, 5}}, 0.95, v1::HiddenStage::NORMED);
  NameHeads(request, {{1, 3}}, 4096, v1::HiddenView::PCA);
  ListRecorder first, second;
  ASSERT_TRUE(Measure(request, &model, {}, first).ok());
  ASSERT_EQ(first.artifacts.size(), 1u);
  const auto tensors = TensorsOf(first.artifacts[0].bytes);
  for (const char* name : {"L1H3.q", "L1H3.k", "L1.h"}) {
    EXPECT_EQ(tensors.at(name).sizes(), at::IntArrayRef({5, 12})) << name;
  }
  // Five rows about their mean span four directions.
  EXPECT_TRUE(tensors.at("L1.h").narrow(1, 4, 8).equal(at::zeros({5, 8})));
  EXPECT_GT(tensors.at("L1.h").select(1, 3).abs().max().item<float>(), 0.01);
  request.mutable_query_key_profile()->mutable_prompts()->mutable_samples()->set_first_sample(16);
  ASSERT_TRUE(Measure(request, &model, {}, second).ok());
  EXPECT_EQ(second.readings.size(), 2u);
  EXPECT_TRUE(second.artifacts.empty());
}

// What the rows of an SVD give: projections on its right singular vectors, each with its largest coordinate
// positive.
at::Tensor BySvd(const at::Tensor& hidden, int64_t columns) {
  const at::Tensor wide = hidden.to(at::kDouble), centred = wide - wide.mean(0, /*keepdim=*/true);
  const at::Tensor vectors =
      std::get<2>(at::linalg_svd(centred, /*full_matrices=*/false)).narrow(0, 0, columns);
  const at::Tensor largest = vectors.gather(1, vectors.abs().argmax(1, /*keepdim=*/true));
  return at::mm(centred, (vectors * largest.sign()).t());
}

TEST(HiddenView, PrincipalColumnsAreTheSvdsForTallAndWideStates) {
  at::manual_seed(3);
  for (const int64_t tokens : {700, 90, 60}) {
    // Directions of well separated energies, far from the origin.
    const at::Tensor scale = at::pow(0.8, at::arange(90).to(at::kDouble));
    const at::Tensor turned = std::get<0>(at::linalg_qr(at::randn({90, 90}, at::kDouble)));
    const at::Tensor hidden =
        (at::mm(at::randn({tokens, 90}, at::kDouble) * scale, turned) + 3).to(at::kFloat);
    const at::Tensor view = ViewOfHidden(hidden, 50, 16, v1::HiddenView::PCA);
    EXPECT_EQ(view.scalar_type(), at::kFloat);
    EXPECT_LT(Distance(view, BySvd(hidden, 16).narrow(0, 0, 50)), 2e-6) << tokens;
  }
}

TEST(HiddenView, DirectionsWithoutEnergyAreZerosAndColumnsEndWithTheState) {
  const at::Tensor along = at::arange(40).to(at::kFloat).unsqueeze(1);
  // One direction, (3, -4, 0) / 5 but for its sign: the largest coordinate is to be positive.
  const at::Tensor hidden = at::mm(along, at::tensor({3.0f, -4.0f, 0.0f}).unsqueeze(0)) + 7;
  const at::Tensor view = ViewOfHidden(hidden, 40, 8, v1::HiddenView::PCA);
  ASSERT_EQ(view.sizes(), at::IntArrayRef({40, 3}));
  EXPECT_LT(Distance(view.select(1, 0), (19.5 - along.select(1, 0)) * 5), 1e-5);
  EXPECT_TRUE(view.narrow(1, 1, 2).equal(at::zeros({40, 2})));
  const at::Tensor still = ViewOfHidden(at::ones({40, 3}), 10, 2, v1::HiddenView::PCA);
  EXPECT_TRUE(still.equal(at::zeros({10, 2})));
  const at::Tensor first = ViewOfHidden(hidden, 10, 8, v1::HiddenView::FIRST_COORDINATES);
  EXPECT_TRUE(first.equal(hidden.narrow(0, 0, 10)));
}

}  // namespace
}  // namespace ropelab::measure
