// L1 norms of the query projections' rows against numpy's, taken from the fixtures' safetensors files in
// float64.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/unit/engine/counted_memory.h"
#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/list_recorder.h"
#include "worker/model/int8_weights.h"

namespace ropelab::measure {
namespace {

using engine::FixtureModel;
using engine::MadeModel;
using engine::SmallConfig;
using testing::HasSubstr;

v1::Measurement Request(bool fold_norm) {
  v1::Measurement measurement;
  measurement.mutable_weight_profile()->mutable_query_rows()->set_fold_norm(fold_norm);
  return measurement;
}

// All layers' rows, one after the other.
std::vector<double> Norms(const v1::Measurement& request, const model::LoadedModel& model) {
  ListRecorder recorder;
  const auto outcome = Measure(request, &model, {}, recorder);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(static_cast<int64_t>(recorder.readings.size()), model.config.layers);
  EXPECT_EQ(recorder.done, recorder.total);
  std::vector<double> norms;
  for (size_t layer = 0; layer < recorder.readings.size(); ++layer) {
    const v1::QueryRowNorms& said = recorder.readings[layer].query_row_norms();
    EXPECT_EQ(said.layer(), static_cast<int>(layer));
    EXPECT_EQ(said.heads(), model.config.query_heads);
    EXPECT_EQ(said.head_dim(), model.config.head_dim);
    EXPECT_EQ(said.norm_size(), said.heads() * said.head_dim());
    norms.insert(norms.end(), said.norm().begin(), said.norm().end());
  }
  return norms;
}

struct NumpyRows {
  const char* fixture;
  bool fold_norm;
  double sum, first, last;
  double weighted;  // sum of each row's norm times its number, from 1, through all layers
};

class QueryRowParity : public testing::TestWithParam<NumpyRows> {};

TEST_P(QueryRowParity, EveryNormIsNumpys) {
  const NumpyRows& numpy = GetParam();
  ROPELAB_NEED_FIXTURE(numpy.fixture);
  const at::ScalarType dtype = std::string(numpy.fixture) == "llama3bf16_a" ? at::kBFloat16 : at::kFloat;
  const std::vector<double> norms =
      Norms(Request(numpy.fold_norm), *engine::LoadFixture(numpy.fixture, dtype));
  double sum = 0, weighted = 0;
  for (size_t r = 0; r < norms.size(); ++r) {
    sum += norms[r];
    weighted += static_cast<double>(r + 1) * norms[r];
  }
  const auto near = [](double ours, double other) { EXPECT_NEAR(ours, other, 1e-13 * other); };
  near(sum, numpy.sum);
  near(norms.front(), numpy.first);
  near(norms.back(), numpy.last);
  near(weighted, numpy.weighted);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, QueryRowParity,
                         testing::Values(NumpyRows{"llama3_a", false, 1956.1786533574978, 9.43756219279021,
                                                   10.39528845762834, 189058.58712315577},
                                         NumpyRows{"llama3_a", true, 1993.7928777492332, 9.3979365031765,
                                                   10.802240623621268, 194330.17342926198},
                                         NumpyRows{"gemma2_a", false, 2224.5159634620504, 7.07480302703334,
                                                   7.2474031445453875, 321931.7066900135},
                                         NumpyRows{"gemma2_a", true, 2203.118592264658, 6.475485376737127,
                                                   7.197686067111876, 322406.8496245245},
                                         NumpyRows{"olmo2_a", false, 1943.5400875047599, 9.930304541427176,
                                                   10.320535767823458, 187824.38413576203},
                                         NumpyRows{"olmo2_a", true, 1943.5400875047599, 9.930304541427176,
                                                   10.320535767823458, 187824.38413576203},
                                         NumpyRows{"qwen3_a", false, 3911.3329009023005, 10.204012343659997,
                                                   11.646603498607874, 754751.4201031728},
                                         NumpyRows{"qwen3_a", true, 3910.9666184630664, 10.173816267175294,
                                                   12.128827639100274, 760112.7192544413},
                                         NumpyRows{"llama3bf16_a", false, 1945.6516925692558,
                                                   9.53826904296875, 9.231903076171875, 188231.51854205132},
                                         NumpyRows{"llama3bf16_a", true, 1939.250972619513, 9.574425220489502,
                                                   9.110870718955994, 186974.6789523838}),
                         [](const auto& info) {
                           return std::string(info.param.fixture) + (info.param.fold_norm ? "_folded" : "");
                         });

TEST(QueryRows, AreThoseOfTheLoadedDtype) {
  model::LoadedModel model = MadeModel(SmallConfig());
  for (model::LayerWeights& layer : model.weights.layers) {
    layer.query = at::full({48, 40}, 1.0f);
    layer.query.select(1, 0).fill_(1.003f);
  }
  EXPECT_DOUBLE_EQ(Norms(Request(false), model)[7], 39 + static_cast<double>(1.003f));
  for (model::LayerWeights& layer : model.weights.layers) layer.query = layer.query.to(at::kBFloat16);
  EXPECT_DOUBLE_EQ(Norms(Request(false), model)[7], 40);  // bfloat16 has 1 and 1.0078125
  for (model::LayerWeights& layer : model.weights.layers) {
    const auto rows = model::RoundToInt8(at::full({48, 40}, 2.0f));
    layer.query = rows.values;
    layer.query_scale = rows.scale;
  }
  const double rounded = static_cast<double>(127 * (2.0f / 127.0f));
  EXPECT_DOUBLE_EQ(Norms(Request(false), model)[7], 40 * rounded);
}

TEST(QueryRows, BitsDoNotDependOnTheNumberOfThreads) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  const int threads = at::get_num_threads();
  const std::vector<double> expected = Norms(Request(true), model);
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    EXPECT_EQ(Norms(Request(true), model), expected);
  }
  at::set_num_threads(threads);
}

TEST(QueryRows, StayUnderWhatIsSaidAndStopWhenTheLeaseIsGone) {
  formats::ModelConfig config = SmallConfig();
  config.hidden_size = 900;
  const model::LoadedModel model = MadeModel(config);
  {
    const engine::CountedMemory counted;
    const int64_t peak = engine::CountedMemory::Peak([&] { Norms(Request(true), model); });
    EXPECT_LE(peak, *ActivationBytes(Request(true), model));
  }
  ListRecorder recorder;
  recorder.cancel_at_call = 1;
  EXPECT_EQ(Measure(Request(true), &model, {}, recorder).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(recorder.readings.size(), 1u);
}

TEST(QueryRows, AreNotTakenWithAVocabulary) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  v1::Measurement both = Request(false);
  both.mutable_weight_profile()->mutable_vocabulary()->set_tokens(90);
  ListRecorder recorder;
  const absl::Status status = Measure(both, &model, {}, recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("vocabulary and query_rows"));
}

}  // namespace
}  // namespace ropelab::measure
