// Spectra, alignment and cone of the fixtures against numpy's, and what is refused.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/list_recorder.h"
#include "tests/unit/measure/weight_numpy_values.h"

namespace ropelab::measure {
namespace {

using engine::FixtureModel;
using engine::LoadFixture;
using engine::MadeModel;
using engine::SmallConfig;
using testing::HasSubstr;

v1::Measurement WeightRequest(double energy) {
  v1::Measurement measurement;
  measurement.mutable_weight_profile()->set_energy(energy);
  return measurement;
}

v1::Measurement VocabularyRequest(int64_t tokens, bool norm_weight) {
  v1::Measurement measurement = WeightRequest(kNumpyEnergy);
  v1::VocabularyProfile& vocabulary = *measurement.mutable_weight_profile()->mutable_vocabulary();
  vocabulary.set_tokens(tokens);
  vocabulary.set_norm_weight(norm_weight);
  vocabulary.set_seed(kNumpySeed);
  vocabulary.set_random_vectors(3);
  return measurement;
}

template <typename Numbers>
void ExpectNear(const Numbers& ours, const std::vector<double>& expected, double relative,
                const std::string& what) {
  ASSERT_EQ(static_cast<size_t>(ours.size()), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(ours[static_cast<int>(i)], expected[i], relative * std::abs(expected[i])) << what << " " << i;
  }
}

// A token whose cosine is on a bin's edge to the last bit of fp32 may stand in the neighbouring bin.
void ExpectCosines(const v1::VocabularySide& side, const std::vector<int64_t>& expected) {
  ASSERT_EQ(static_cast<size_t>(side.cosines_size()), expected.size());
  for (size_t head = 0; head < expected.size(); ++head) {
    const auto& counts = side.cosines(static_cast<int>(head)).counts();
    ASSERT_EQ(counts.size(), 200);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), side.tokens());
    int64_t moment = 0;
    for (int bin = 0; bin < 200; ++bin) moment += int64_t{bin} * bin * counts[bin];
    EXPECT_NEAR(static_cast<double>(moment), static_cast<double>(expected[head]), 400) << "head " << head;
  }
}

// What fp16 computes is only known to its eleven bits: ranks and a mean near zero are then not compared.
void ExpectSide(const v1::VocabularySide& side, const NumpySide& expected, bool norm_weight, bool half) {
  const double relative = half ? 2e-3 : 1e-5;
  ExpectNear(side.r1(), expected.r1, relative, "r1");
  ExpectNear(side.aligned_r1(), expected.aligned_r1, relative, "aligned_r1");
  ExpectNear(side.mean_norm(), expected.mean_norm, relative, "mean_norm");
  ExpectNear(side.bias_norm(), expected.bias_norm, relative, "bias_norm");
  if (half) return;
  EXPECT_THAT(side.rank(), testing::ElementsAreArray(expected.rank));
  // The nine digits that are written down; one token by one would be 1e-4 of it.
  ExpectNear(side.aligned_rank(), expected.aligned_rank, 1e-8, "aligned_rank");
  ExpectNear(side.axis_rv(), norm_weight ? expected.axis_rv : expected.plain_axis_rv, 1e-5, "axis_rv");
  ExpectCosines(side, norm_weight ? expected.cosines : expected.plain_cosines);
}

class WeightParity : public testing::TestWithParam<int> {
 protected:
  const NumpyModel& expected() const { return NumpyModels()[static_cast<size_t>(GetParam())]; }
  bool half() const { return std::string(expected().fixture) == "qwen2f16_a"; }
  std::shared_ptr<const model::LoadedModel> Load() const {
    return LoadFixture(expected().fixture, half() ? at::kHalf : at::kFloat);
  }
};

TEST_P(WeightParity, SpectraOfTheProjectionsAreNumpys) {
  ROPELAB_NEED_FIXTURE(expected().fixture);
  ListRecorder recorder;
  const auto outcome = Measure(WeightRequest(kNumpyEnergy), Load().get(), {}, recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->fed_ids_digest, "");
  ASSERT_EQ(recorder.readings.size(), expected().layers.size());
  for (size_t layer = 0; layer < recorder.readings.size(); ++layer) {
    const v1::WeightSpectra& spectra = recorder.readings[layer].weight_spectra();
    EXPECT_EQ(spectra.layer(), static_cast<int32_t>(layer));
    // The weights themselves are exact.
    ExpectNear(spectra.query_r1(), expected().layers[layer].query_r1, 1e-8, "query_r1");
    ExpectNear(spectra.key_r1(), expected().layers[layer].key_r1, 1e-8, "key_r1");
    EXPECT_THAT(spectra.query_rank(), testing::ElementsAreArray(expected().layers[layer].query_rank));
    EXPECT_THAT(spectra.key_rank(), testing::ElementsAreArray(expected().layers[layer].key_rank));
  }
}

TEST_P(WeightParity, TheVocabularysFiguresAreNumpys) {
  ROPELAB_NEED_FIXTURE(expected().fixture);
  for (const bool norm_weight : {true, false}) {
    SCOPED_TRACE(norm_weight ? "with the norm's weight" : "without the norm's weight");
    ListRecorder recorder;
    const auto outcome =
        Measure(VocabularyRequest(expected().tokens, norm_weight), Load().get(), {}, recorder);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ASSERT_EQ(recorder.readings.size(), 2u);
    const v1::VocabularySide& query = recorder.readings[0].vocabulary_side();
    const v1::VocabularySide& key = recorder.readings[1].vocabulary_side();
    EXPECT_EQ(query.matrix(), v1::Matrix::QUERY);
    EXPECT_EQ(key.matrix(), v1::Matrix::KEY);
    EXPECT_EQ(query.tokens(), expected().tokens);
    ExpectSide(query, expected().query, norm_weight, half());
    ExpectSide(key, expected().key, norm_weight, half());
    EXPECT_THAT(query.random_rv(), testing::ElementsAreArray(key.random_rv()));
    const auto& random = norm_weight ? expected().random_rv.with_weight : expected().random_rv.plain;
    if (!half()) ExpectNear(query.random_rv(), random, 1e-5, "random_rv");
    EXPECT_EQ(recorder.done, recorder.total);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, WeightParity, testing::Range(0, static_cast<int>(NumpyModels().size())),
                         [](const auto& info) {
                           return std::string(NumpyModels()[static_cast<size_t>(info.param)].fixture);
                         });

TEST(WeightProfile, AProjectionOfRankOneHasAllItsEnergyInOneDirectionAndOneOfZerosHasNone) {
  model::LoadedModel model = MadeModel(SmallConfig());
  const at::Tensor column = at::arange(1, 13).to(at::kFloat).unsqueeze(1);
  const at::Tensor row = at::arange(-20, 20).to(at::kFloat).unsqueeze(0);
  model.weights.layers[0].query.narrow(0, 12, 12).copy_(at::mm(column, row));
  model.weights.layers[0].query.narrow(0, 24, 12).zero_();
  ListRecorder recorder;
  ASSERT_TRUE(Measure(WeightRequest(0.95), &model, {}, recorder).ok());
  ASSERT_EQ(recorder.readings.size(), 2u);
  const v1::WeightSpectra& spectra = recorder.readings[0].weight_spectra();
  EXPECT_DOUBLE_EQ(spectra.query_r1(1), 1.0);
  EXPECT_EQ(spectra.query_rank(1), 1);
  EXPECT_TRUE(std::isnan(spectra.query_r1(2)));
  EXPECT_EQ(spectra.query_rank(2), 0);
}

TEST(WeightProfile, BitsDoNotDependOnTheNumberOfThreads) {
  formats::ModelConfig config = SmallConfig();
  config.hidden_size = 320;
  config.head_dim = 64;
  config.kv_heads = 1;
  const model::LoadedModel model = MadeModel(config);
  const int threads = at::get_num_threads();
  std::vector<std::string> said;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    ListRecorder recorder;
    ASSERT_TRUE(Measure(WeightRequest(0.95), &model, {}, recorder).ok());
    said.emplace_back();
    for (const v1::Reading& reading : recorder.readings) said.back() += reading.SerializeAsString();
  }
  at::set_num_threads(threads);
  EXPECT_EQ(said[0], said[1]);
  EXPECT_EQ(said[0], said[2]);
}

TEST(WeightProfile, RefusesWhatIsOutOfRangeWithTheFieldAndTheRange) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  ListRecorder recorder;
  const auto refusal = [&](const v1::Measurement& request) {
    const absl::Status status = Measure(request, &model, {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(WeightRequest(0)), HasSubstr("energy is 0"));
  EXPECT_THAT(refusal(WeightRequest(1.5)), HasSubstr("energy is 1.5"));
  EXPECT_THAT(refusal(WeightRequest(std::nan(""))), HasSubstr("energy is nan"));
  EXPECT_THAT(refusal(VocabularyRequest(0, true)), HasSubstr("tokens is 0"));
  EXPECT_THAT(refusal(VocabularyRequest(91, true)),
              testing::AllOf(HasSubstr("tokens is 91"), HasSubstr("90 rows")));
  v1::Measurement request = VocabularyRequest(90, true);
  request.mutable_weight_profile()->mutable_vocabulary()->set_random_vectors(-1);
  EXPECT_THAT(refusal(request), HasSubstr("random_vectors is -1"));
  EXPECT_TRUE(recorder.readings.empty());
}

TEST(WeightProfile, StopsAtOnceWhenTheLeaseIsGone) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  for (const v1::Measurement& request : {WeightRequest(0.95), VocabularyRequest(90, true)}) {
    ListRecorder recorder;
    recorder.cancel_at_call = 1;
    EXPECT_EQ(Measure(request, &model, {}, recorder).status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(recorder.calls, 1);
    EXPECT_LE(recorder.readings.size(), 1u);
  }
}

}  // namespace
}  // namespace ropelab::measure
