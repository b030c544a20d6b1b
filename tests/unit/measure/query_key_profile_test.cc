// Spectra of queries, keys and hidden states of the fixtures against numpy's, and what is refused.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/list_recorder.h"
#include "tests/unit/measure/query_key_numpy_values.h"
#include "tests/unit/measure/query_key_request.h"

namespace ropelab::measure {
namespace {

using engine::ExpectedTensors;
using engine::FixtureModel;
using engine::Ids;
using engine::LoadFixture;
using engine::MadeModel;
using engine::SmallConfig;
using testing::ElementsAreArray;
using testing::HasSubstr;

template <typename Numbers>
void ExpectNear(const Numbers& ours, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(static_cast<size_t>(ours.size()), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(ours[static_cast<int>(i)], expected[i], 1e-5 * expected[i]) << what << " " << i;
  }
}

class QueryKeyParity : public testing::TestWithParam<int> {
 protected:
  const NumpyPrompt& expected() const { return NumpyPrompts()[static_cast<size_t>(GetParam())]; }
};

TEST_P(QueryKeyParity, EveryLayerIsNumpys) {
  ROPELAB_NEED_FIXTURE(expected().fixture);
  const auto model = LoadFixture(expected().fixture);
  const std::vector<int32_t> ids = Ids(ExpectedTensors(expected().fixture).at("input_ids"));
  for (const auto stage : {v1::HiddenStage::NORMED, v1::HiddenStage::RESIDUAL}) {
    ListRecorder recorder;
    const auto outcome = Measure(QueryKeyRequest({ids}, kQueryKeyEnergy, stage), model.get(), {}, recorder);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->fed_ids_digest.size(), 64u);
    ASSERT_EQ(recorder.readings.size(), expected().layers.size());
    EXPECT_EQ(recorder.done, recorder.total);
    for (size_t layer = 0; layer < recorder.readings.size(); ++layer) {
      SCOPED_TRACE(layer);
      const v1::LayerSpectra& ours = recorder.readings[layer].layer_spectra();
      const NumpyQueryKey& numpy = expected().layers[layer];
      EXPECT_EQ(ours.layer(), static_cast<int32_t>(layer));
      EXPECT_EQ(ours.sample(), 0);
      ExpectNear(ours.query_r1(), numpy.query_r1, "query_r1");
      ExpectNear(ours.key_r1(), numpy.key_r1, "key_r1");
      EXPECT_THAT(ours.query_rank(), ElementsAreArray(numpy.query_rank));
      EXPECT_THAT(ours.key_rank(), ElementsAreArray(numpy.key_rank));
      ExpectNear(ours.query_norm_rv(), numpy.query_norm_rv, "query_norm_rv");
      ExpectNear(ours.key_norm_rv(), numpy.key_norm_rv, "key_norm_rv");
      const NumpyHidden& hidden = stage == v1::HiddenStage::NORMED ? numpy.normed : numpy.residual;
      EXPECT_NEAR(ours.hidden_r1(), hidden.r1, 1e-5 * hidden.r1);
      EXPECT_EQ(ours.hidden_rank(), hidden.rank);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, QueryKeyParity, testing::Range(0, static_cast<int>(NumpyPrompts().size())),
                         [](const auto& info) {
                           return std::string(NumpyPrompts()[static_cast<size_t>(info.param)].fixture);
                         });

// A causal model's first rows are those of the shorter prompt; singular values by libtorch's own SVD.
TEST(QueryKeyProfile, OfFewerTokensThanHiddenColumnsIsTheSvdsOfTheSameRows) {
  ROPELAB_NEED_FIXTURE("olmo2_a");
  const auto tensors = ExpectedTensors("olmo2_a");
  std::vector<int32_t> ids = Ids(tensors.at("input_ids"));
  ids.resize(40);
  ListRecorder recorder;
  ASSERT_TRUE(Measure(QueryKeyRequest({ids}, 0.9, v1::HiddenStage::NORMED), LoadFixture("olmo2_a").get(), {},
                      recorder)
                  .ok());
  for (int layer = 0; layer < 3; ++layer) {
    const at::Tensor h = tensors.at("hidden")[layer].narrow(0, 0, 40).to(at::kDouble);
    const at::Tensor energy = at::linalg_svdvals(h).square(), reached = energy.cumsum(0) / energy.sum();
    const v1::LayerSpectra& ours = recorder.readings[static_cast<size_t>(layer)].layer_spectra();
    EXPECT_NEAR(ours.hidden_r1(), reached[0].item<double>(), 1e-5 * ours.hidden_r1());
    EXPECT_EQ(ours.hidden_rank(), reached.lt(0.9).sum().item<int64_t>() + 1);
  }
}

TEST(QueryKeyProfile, BitsDependNeitherOnTheNumberOfThreadsNorOnTheBlock) {
  formats::ModelConfig config = SmallConfig();
  config.hidden_size = 320;
  config.head_dim = 64;
  const int threads = at::get_num_threads();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const model::LoadedModel model = MadeModel(config, dtype);
    // More tokens than columns, fewer, and one alone.
    std::vector<std::vector<int32_t>> prompts(3);
    for (int i = 0; i < 500; ++i) prompts[0].push_back((i * i + 3 * i) % 90);
    for (int i = 0; i < 200; ++i) prompts[1].push_back((i * i + 5 * i) % 90);
    prompts[2] = {17};
    std::vector<std::string> said;
    for (const int count : {1, 2, 3}) {
      at::set_num_threads(count);
      v1::Measurement request = QueryKeyRequest(prompts, 0.95, v1::HiddenStage::NORMED);
      NameHeads(request, {{0, 1}, {1, 3}}, 70, v1::HiddenView::PCA);
      ListRecorder recorder;
      ASSERT_TRUE(Measure(request, &model, {}, recorder).ok());
      ASSERT_EQ(recorder.readings.size(), 7u);
      ASSERT_EQ(recorder.artifacts.size(), 1u);
      said.push_back(recorder.artifacts[0].bytes);
      for (const v1::Reading& reading : recorder.readings) said.back() += reading.SerializeAsString();

      ListRecorder alone;
      v1::Measurement one = QueryKeyRequest({prompts[1]}, 0.95, v1::HiddenStage::NORMED);
      one.mutable_query_key_profile()->mutable_prompts()->mutable_samples()->set_first_sample(8);
      ASSERT_TRUE(Measure(one, &model, {}, alone).ok());
      for (size_t layer = 0; layer < 2; ++layer) {
        v1::LayerSpectra spectra = alone.readings[layer].layer_spectra();
        EXPECT_EQ(spectra.sample(), 8);
        spectra.set_sample(1);  // in the block above; its views come after the first prompt's two layers
        EXPECT_EQ(spectra.SerializeAsString(),
                  recorder.readings[3 + layer].layer_spectra().SerializeAsString());
      }
    }
    at::set_num_threads(threads);
    EXPECT_EQ(said[0], said[1]);
    EXPECT_EQ(said[0], said[2]);
  }
}

TEST(QueryKeyProfile, RefusesWhatIsOutOfRangeWithTheFieldAndTheRange) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  const std::vector<int32_t> ids(10, 1);
  ListRecorder recorder;
  const auto refusal = [&](const v1::Measurement& request) {
    const absl::Status status = Measure(request, &model, {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  const v1::Measurement good = QueryKeyRequest({ids}, 0.95, v1::HiddenStage::NORMED);
  EXPECT_THAT(refusal(QueryKeyRequest({ids}, 0, v1::HiddenStage::NORMED)), HasSubstr("energy is 0"));
  EXPECT_THAT(refusal(QueryKeyRequest({ids}, 1.25, v1::HiddenStage::NORMED)), HasSubstr("energy is 1.25"));
  EXPECT_THAT(refusal(QueryKeyRequest({ids}, std::nan(""), v1::HiddenStage::NORMED)),
              HasSubstr("energy is nan"));
  EXPECT_THAT(refusal(QueryKeyRequest({ids}, 0.95, v1::HiddenStage::UNSPECIFIED)),
              HasSubstr("hidden_stage is 0"));
  EXPECT_THAT(refusal(QueryKeyRequest({{1, 90}}, 0.95, v1::HiddenStage::NORMED)),
              HasSubstr("token id 90 at position 1"));
  const auto with = [&](const std::vector<std::pair<int, int>>& heads, int64_t rows,
                        v1::HiddenView::Value view) {
    v1::Measurement request = good;
    NameHeads(request, heads, rows, view);
    return request;
  };
  constexpr auto kPca = v1::HiddenView::PCA;
  EXPECT_THAT(refusal(with({{0, 0}}, -1, kPca)), HasSubstr("view_rows is -1"));
  EXPECT_THAT(refusal(with({{0, 0}}, 4097, kPca)),
              testing::AllOf(HasSubstr("view_rows is 4097"), HasSubstr("1 to 4096")));
  EXPECT_THAT(refusal(with({{0, 0}}, 0, kPca)), HasSubstr("1 heads and view_rows 0"));
  EXPECT_THAT(refusal(with({}, 5, kPca)), HasSubstr("0 heads and view_rows 5"));
  EXPECT_THAT(refusal(with({{0, 0}}, 5, v1::HiddenView::UNSPECIFIED)), HasSubstr("hidden_view is 0"));
  EXPECT_THAT(refusal(with({{2, 0}}, 5, kPca)),
              testing::AllOf(HasSubstr("L2H0"), HasSubstr("2 layers of 4 heads")));
  EXPECT_THAT(refusal(with({{0, 4}}, 5, kPca)), HasSubstr("L0H4"));
  EXPECT_THAT(refusal(with({{0, -1}}, 5, kPca)), HasSubstr("L0H-1"));
  EXPECT_THAT(refusal(with({{1, 0}, {0, 3}}, 5, kPca)), HasSubstr("L0H3 is out of order"));
  EXPECT_THAT(refusal(with({{1, 0}, {1, 0}}, 5, kPca)), HasSubstr("L1H0 is out of order"));
  EXPECT_TRUE(recorder.readings.empty());
}

TEST(QueryKeyProfile, SaysWhereTheModelDoesNotComputeInItsDtype) {
  model::LoadedModel model = MadeModel(SmallConfig(), at::kHalf);
  model.weights.layers[1].key.narrow(0, 12, 12).fill_(60000);  // KV head 1
  ListRecorder recorder;
  const absl::Status status =
      Measure(QueryKeyRequest({{3, 4, 5}}, 0.95, v1::HiddenStage::NORMED), &model, {}, recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("sample 0, layer 1"), HasSubstr("KV head 1")));
}

TEST(QueryKeyProfile, StopsAtOnceWhenTheLeaseIsGone) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  ListRecorder recorder;
  recorder.cancel_at_call = 1;
  EXPECT_EQ(Measure(QueryKeyRequest({{1, 2, 3}, {4, 5}}, 0.95, v1::HiddenStage::NORMED), &model, {}, recorder)
                .status()
                .code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(recorder.readings.size(), 1u);
}

}  // namespace
}  // namespace ropelab::measure
