// Contributions of RoPE pairs against their definition in double, over queries and keys that another
// implementation computed.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <numeric>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/frequency_fakes.h"

namespace ropelab::measure {
namespace {

using engine::ExpectedTensors;
using engine::FixtureModel;
using engine::Ids;
using engine::LoadFixture;
using engine::MadeModel;
using engine::SmallConfig;
using ::testing::HasSubstr;

std::vector<int32_t> Range(int64_t tokens, int64_t step, int64_t vocabulary) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (int64_t i = 0; i < tokens; ++i) ids[i] = static_cast<int32_t>(i * step % vocabulary);
  return ids;
}

// The pieces of one heat map put together: [pairs, row + 1], and the std of each pair.
struct HeatMap {
  std::vector<double> inp, std;
};
HeatMap HeatMapOf(const ListRecorder& recorder, const FrequencyHead& head, int64_t row) {
  HeatMap map;
  for (const v1::Reading& reading : recorder.readings) {
    const v1::HeatMapPiece& piece = reading.heat_map_piece();
    if (!reading.has_heat_map_piece() || piece.layer() != head.layer || piece.head() != head.head ||
        piece.row() != row) {
      continue;
    }
    EXPECT_EQ(piece.first_pair(), static_cast<int32_t>(map.std.size()) + 1);
    EXPECT_EQ(piece.inp_size(), piece.pairs() * (row + 1));
    map.inp.insert(map.inp.end(), piece.inp().begin(), piece.inp().end());
    map.std.insert(map.std.end(), piece.std().begin(), piece.std().end());
  }
  return map;
}

class Frequencies : public ::testing::TestWithParam<std::string> {};

TEST_P(Frequencies, OfNamedHeadsEqualTheDefinition) {
  ROPELAB_NEED_FIXTURE(GetParam());
  const auto model = LoadFixture(GetParam());
  const auto& config = model->config;
  const auto expected = ExpectedTensors(GetParam());
  const std::vector<int32_t> ids = Ids(expected.at("input_ids"));
  const int64_t tokens = static_cast<int64_t>(ids.size()), half = config.head_dim / 2;
  const int32_t last_layer = static_cast<int32_t>(config.layers - 1);
  const int32_t last_head = static_cast<int32_t>(config.query_heads - 1);
  const std::vector<FrequencyHead> heads = {
      {0, 0, 1}, {0, 1, tokens - 5}, {0, last_head}, {last_layer, 1, 0}};
  const std::vector<int64_t> rows = {0, 20, tokens - 1};
  const ListRecorder recorder = Measured(ProfileRequest({ids}, heads, rows), *model);
  ASSERT_EQ(recorder.readings.size(), heads.size() * (1 + rows.size()));
  // Frequencies of the fixtures fall, so that the order of frequency is that of storage.
  std::vector<int64_t> places(half);
  std::iota(places.begin(), places.end(), 0);
  for (size_t h = 0; h < heads.size(); ++h) {
    const v1::HeadFrequencies& said = recorder.readings[h * (1 + rows.size())].head_frequencies();
    const PairTensors pairs = PairsOf(expected, heads[h], places);
    ExpectHeadFrequencies(said, pairs, heads[h], 4);
    EXPECT_EQ(said.attention_factor(), 1.0);
    const std::vector<double> inv_freq = formats::InverseFrequencies(config, tokens);
    EXPECT_EQ(std::vector<double>(said.theta().begin(), said.theta().end()), inv_freq);
    const at::Tensor products = ProductsOf(pairs);
    for (const int64_t row : rows) {
      const at::Tensor of_row = products.select(1, row).narrow(1, 0, row + 1);
      const HeatMap map = HeatMapOf(recorder, heads[h], row);
      ExpectVector(map.inp, of_row, "row " + std::to_string(row));
      ExpectVector(map.std, of_row.std(1, /*unbiased=*/false), "std of row " + std::to_string(row));
      // All pairs together are the logit, before scale and soft cap.
      const at::Tensor ours = at::tensor(at::ArrayRef<double>(map.inp), at::kDouble).view({half, row + 1});
      const int64_t group = heads[h].head / (config.query_heads / config.kv_heads);
      const at::Tensor logits =
          at::mv(expected.at("k_rot")[heads[h].layer][group].to(at::kDouble),
                 expected.at("q_rot")[heads[h].layer][heads[h].head][row].to(at::kDouble))
              .narrow(0, 0, row + 1);
      const at::Tensor sums = ours.sum(0).contiguous();
      ExpectVector(std::vector<double>(sums.data_ptr<double>(), sums.data_ptr<double>() + row + 1), logits,
                   "logits of row " + std::to_string(row));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Frequencies,
                         ::testing::Values("llama2_a", "llama3_a", "mistral_a", "gemma_a", "gemma2_a",
                                           "qwen2_a", "qwen3_a", "olmo2_a", "stories260K"));

// Scaling that multiplies query and key, and one whose storage order is not that of frequency.
TEST(FrequencyProfile, FollowsAttentionFactorAndOrderOfFrequency) {
  formats::ModelConfig config = SmallConfig();
  config.rope_scaling.kind = formats::RopeScalingKind::kLongRope;
  config.rope_scaling.original_max_positions = 64;
  config.rope_scaling.attention_factor = 1.3;
  config.rope_scaling.short_factor = {1, 1, 1, 1, 1, 1};
  config.rope_scaling.long_factor = {900, 1, 30, 1, 1, 1};
  const model::LoadedModel model = MadeModel(config);
  for (const int64_t tokens : {int64_t{50}, int64_t{100}}) {
    const std::vector<int32_t> ids = Range(tokens, 37, config.vocabulary);
    const FrequencyHead head = {1, 3, 6};
    const v1::HeadFrequencies said =
        Measured(ProfileRequest({ids}, {head}), model).readings[0].head_frequencies();
    // theta^(-p/6) is 1, .215, .0464, .01, .00215, .00046; divided, place 0 is .00111 and place 2 .00155.
    const std::vector<int64_t> places =
        tokens > 64 ? std::vector<int64_t>{1, 3, 4, 2, 0, 5} : std::vector<int64_t>{0, 1, 2, 3, 4, 5};
    const std::vector<double> inv_freq = formats::InverseFrequencies(config, tokens);
    for (int pair = 0; pair < 6; ++pair) {
      EXPECT_EQ(said.theta(pair), inv_freq[places[pair]]) << pair;
      EXPECT_TRUE(pair == 0 || said.theta(pair) < said.theta(pair - 1)) << pair;
    }
    EXPECT_EQ(said.attention_factor(), 1.3);
    const auto tensors = ProjectedOf(model, ids);
    const PairTensors pairs = PairsOf(tensors, head, places);
    ExpectHeadFrequencies(said, pairs, head, 4);
    // The rotated vectors hold the factor, those before RoPE do not.
    const double ratio = (pairs.query_rot.norm() / pairs.query_pre.norm()).item<double>();
    EXPECT_NEAR(ratio, 1.3, 1e-5);
  }
}

TEST(FrequencyProfile, OfSeveralPromptsIsTheSumOfEachOnesMeans) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  const std::vector<int32_t> ids = Ids(ExpectedTensors("stories260K").at("input_ids"));
  const std::vector<int32_t> part(ids.begin(), ids.begin() + 41);
  const std::vector<FrequencyHead> heads = {{2, 3, 2}};
  const std::vector<int64_t> rows = {40};
  const ListRecorder both = Measured(ProfileRequest({ids, part}, heads, rows), *model);
  const ListRecorder first = Measured(ProfileRequest({ids}, heads, rows), *model);
  const ListRecorder second = Measured(ProfileRequest({part}, heads, rows), *model);
  ASSERT_EQ(both.readings.size(), 2u);
  EXPECT_EQ(both.readings[0].head_frequencies().prompts(), 2);
  EXPECT_EQ(both.readings[1].heat_map_piece().prompts(), 2);
  const auto expect_sum = [&](auto numbers) {
    const auto& sum = numbers(both);
    ASSERT_GT(sum.size(), 0);
    for (int i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], numbers(first)[i] + numbers(second)[i]) << i;
  };
  using Recorded = const ListRecorder&;
  expect_sum([](Recorded r) { return r.readings[0].head_frequencies().means().query(); });
  expect_sum([](Recorded r) { return r.readings[0].head_frequencies().means().key(); });
  expect_sum([](Recorded r) { return r.readings[0].head_frequencies().mean_inp(); });
  expect_sum([](Recorded r) { return r.readings[0].head_frequencies().mean_abs_inp(); });
  expect_sum([](Recorded r) { return r.readings[0].head_frequencies().inp_at_lag(); });
  expect_sum([](Recorded r) { return r.readings[1].heat_map_piece().inp(); });
  expect_sum([](Recorded r) { return r.readings[1].heat_map_piece().std(); });
}

TEST(FrequencyProfile, GivesTheSameBitsWithAnyNumberOfThreads) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  const std::vector<int32_t> ids = Range(500, 131, 512);
  const v1::Measurement request = ProfileRequest({ids, ids}, {{0, 1, 3}, {0, 5}, {3, 2, 7}}, {99, 416});
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

TEST(FrequencyProfile, OfOneTokenIsItsOwnProduct) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  v1::Measurement request = ProfileRequest({{5}}, {{0, 1, 0}}, {0});
  request.mutable_frequency_profile()->set_skip_first(0);
  const ListRecorder recorder = Measured(request, model);
  const PairTensors pairs = PairsOf(ProjectedOf(model, {5}), {0, 1}, {0, 1, 2, 3, 4, 5});
  const at::Tensor products = (pairs.query_rot * pairs.key_rot).sum(at::IntArrayRef{0, 2});
  const v1::HeadFrequencies& said = recorder.readings[0].head_frequencies();
  ExpectVector(said.mean_inp(), products, "InP");
  ExpectVector(said.mean_abs_inp(), products.abs(), "|InP|");
  ExpectVector(said.inp_at_lag(), products, "at lag");
  ExpectVector(recorder.readings[1].heat_map_piece().inp(), products, "heat map");
  for (const double std : recorder.readings[1].heat_map_piece().std()) EXPECT_EQ(std, 0.0);
}

TEST(FrequencyProfile, StopsWhenItsLeaseIsGone) {
  const model::LoadedModel model = MadeModel(SmallConfig());
  ListRecorder recorder;
  recorder.cancel_at_call = 2;
  const auto outcome = Measure(ProfileRequest({{5, 6, 7}}, {{0, 1}, {0, 2}}), &model, {}, recorder);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(recorder.calls, 2);
  EXPECT_TRUE(recorder.readings.empty());
}

TEST(FrequencyProfile, RefusesWhatCannotBeMeasured) {
  model::LoadedModel model = MadeModel(SmallConfig());
  const std::vector<int32_t> ids(40, 1);
  const auto refusal = [&](const v1::Measurement& request) {
    ListRecorder recorder;
    const absl::Status status = Measure(request, &model, {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(recorder.readings.empty());
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(ProfileRequest({ids}, {})), HasSubstr("0 heads"));
  EXPECT_THAT(refusal(ProfileRequest({ids}, {{0, 4}})), HasSubstr("L0H4 is not in the model"));
  EXPECT_THAT(refusal(ProfileRequest({ids}, {{2, 0}})), HasSubstr("L2H0 is not in the model"));
  EXPECT_THAT(refusal(ProfileRequest({ids}, {{0, 1}, {0, 1}})), HasSubstr("out of order"));
  EXPECT_THAT(refusal(ProfileRequest({ids}, std::vector<FrequencyHead>(513, {0, 1}))),
              HasSubstr("513 heads"));
  EXPECT_THAT(refusal(ProfileRequest({ids}, {{0, 1, 36}})), HasSubstr("L0H1 has offset 36"));
  EXPECT_THAT(refusal(ProfileRequest({ids}, {{0, 1, -1}})), HasSubstr("offsets are 0 to 35"));
  EXPECT_THAT(refusal(ProfileRequest({ids, std::vector<int32_t>(30, 1)}, {{0, 1, 30}})),
              HasSubstr("sample 1"));
  EXPECT_THAT(refusal(ProfileRequest({ids}, {{0, 1}}, {40})), HasSubstr("rows are 0 to 39"));
  EXPECT_THAT(refusal(ProfileRequest({ids}, {{0, 1}}, {7, 7})), HasSubstr("rows holds 7"));
  v1::Measurement request = ProfileRequest({ids}, {{0, 1}});
  request.mutable_frequency_profile()->set_skip_first(-1);
  EXPECT_THAT(refusal(request), HasSubstr("skip_first is -1"));
  model.config.rope_scaling.kind = formats::RopeScalingKind::kDynamic;
  model.config.rope_scaling.original_max_positions = 16;
  EXPECT_THAT(refusal(ProfileRequest({ids, std::vector<int32_t>(30, 1)}, {{0, 1}})),
              HasSubstr("frequencies depend on the length"));
}

TEST(FrequencyProfile, NamesTheHeadThatIsNotFinite) {
  model::LoadedModel model = MadeModel(SmallConfig());
  model.weights.layers[1].query[13][3] = std::numeric_limits<float>::infinity();
  ListRecorder recorder;
  const absl::Status status =
      Measure(ProfileRequest({{1, 2, 3}}, {{1, 0}, {1, 1}}), &model, {}, recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("L1H1, RoPE pair 2"));
}

}  // namespace
}  // namespace ropelab::measure
