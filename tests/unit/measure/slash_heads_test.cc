// Removals and maps of named heads against plain loops in double over queries, keys and attention that
// another implementation computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <cmath>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/formats/temporary_directory.h"
#include "tests/unit/measure/list_recorder.h"
#include "worker/formats/plant.h"

namespace ropelab::measure {
namespace {

using engine::ExpectedTensors;
using engine::FixtureModel;
using engine::Ids;
using engine::LoadFixture;
using ::testing::HasSubstr;

struct Head {
  int32_t layer, head;
  int64_t offset;
};

v1::Measurement Request(const std::vector<std::vector<int32_t>>& prompts, const std::vector<Head>& heads) {
  v1::Measurement measurement;
  v1::SlashProfile& profile = *measurement.mutable_slash_profile();
  profile.mutable_prompts()->mutable_samples()->set_count(static_cast<int64_t>(prompts.size()));
  for (const auto& ids : prompts) {
    profile.mutable_prompts()->mutable_given()->add_prompts()->mutable_ids()->Add(ids.begin(), ids.end());
  }
  profile.set_last_offset(12);
  profile.set_skip_first(4);
  for (const Head& head : heads) {
    v1::MeasuredHead& named = *profile.add_heads();
    named.set_layer(head.layer);
    named.set_head(head.head);
    named.set_offset(head.offset);
  }
  return measurement;
}

void Remove(v1::Measurement& request, const std::vector<int32_t>& pairs) {
  v1::PairList& list = *request.mutable_slash_profile()->add_removals();
  list.mutable_pairs()->Add(pairs.begin(), pairs.end());
}

const v1::SlashBlock* Find(const ListRecorder& recorder, int removal, const Head& head) {
  for (const v1::Reading& reading : recorder.readings) {
    const v1::SlashBlock& block = reading.slash_block();
    if (reading.has_slash_block() && block.removal() == removal && block.layer() == head.layer &&
        head.head >= block.first_head() && head.head < block.first_head() + block.heads()) {
      return &block;
    }
  }
  return nullptr;
}

double MainScore(const ListRecorder& recorder, const Head& head) {
  const v1::SlashBlock& block = *Find(recorder, 0, head);
  return block.mean(static_cast<int>((head.head - block.first_head()) * block.offsets() + head.offset));
}

// Section 4 word for word: the listed pairs of the rotated vectors come from the unrotated ones.
double ScoreByLoop(const std::map<std::string, at::Tensor>& tensors, const formats::ModelConfig& config,
                   const Head& head, const std::vector<int64_t>& stored_pairs,
                   const v1::SlashProfile& profile) {
  const int64_t group = head.head / (config.query_heads / config.kv_heads), half = config.head_dim / 2;
  at::Tensor q = tensors.at("q_rot")[head.layer][head.head].to(at::kDouble).clone();
  at::Tensor k = tensors.at("k_rot")[head.layer][group].to(at::kDouble).clone();
  for (const int64_t pair : stored_pairs) {
    for (const int64_t d : {pair, pair + half}) {
      q.select(1, d).copy_(tensors.at("q_pre")[head.layer][head.head].select(1, d));
      k.select(1, d).copy_(tensors.at("k_pre")[head.layer][group].select(1, d));
    }
  }
  at::Tensor logits = at::mm(q, k.t()) * config.attention_scale;
  if (config.attention_soft_cap > 0)
    logits = (logits / config.attention_soft_cap).tanh() * config.attention_soft_cap;
  const int64_t n = q.size(0);
  const int64_t window = config.sliding_window.empty() ? 0 : config.sliding_window[head.layer];
  const bool common = profile.rows() == v1::Rows::COMMON;
  const int64_t first_row = (common ? profile.last_offset() : head.offset) + profile.skip_first();
  double sum = 0;
  for (int64_t i = first_row; i < n; ++i) {
    const int64_t first = window > 0 ? std::max<int64_t>(0, i + 1 - window) : 0;
    if (i - head.offset < first) continue;
    const at::Tensor p = at::softmax(logits[i].narrow(0, first, i + 1 - first), 0);
    sum += p[i - head.offset - first].item<double>();
  }
  const bool definition = profile.denominator() == v1::Denominator::DEFINITION;
  return sum / static_cast<double>(definition ? n - head.offset : n - first_row);
}

class Removals : public ::testing::TestWithParam<std::string> {};

TEST_P(Removals, AreTheScoresOfVectorsWithSomePairsUnrotated) {
  ROPELAB_NEED_FIXTURE(GetParam());
  const auto model = LoadFixture(GetParam());
  const auto expected = ExpectedTensors(GetParam());
  const auto& config = model->config;
  const int32_t last_layer = static_cast<int32_t>(config.layers - 1);
  const int32_t last_head = static_cast<int32_t>(config.query_heads - 1);
  const std::vector<Head> heads = {{0, 0, 1}, {0, last_head, 12}, {last_layer, 1, 0}};
  const int32_t pairs = static_cast<int32_t>(config.head_dim / 2);
  std::vector<int32_t> all(pairs);
  for (int32_t p = 0; p < pairs; ++p) all[p] = p + 1;
  for (const auto rows : {v1::Rows::ALL, v1::Rows::COMMON}) {
    v1::Measurement request = Request({Ids(expected.at("input_ids"))}, heads);
    request.mutable_slash_profile()->set_rows(rows);
    if (rows == v1::Rows::ALL) request.mutable_slash_profile()->set_denominator(v1::Denominator::DEFINITION);
    for (const auto& list : {std::vector<int32_t>{}, {1}, {1, pairs}, all}) Remove(request, list);
    ListRecorder recorder;
    const auto outcome = Measure(request, model.get(), {}, recorder);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    for (const Head& head : heads) {
      EXPECT_EQ(Find(recorder, 1, head)->mean(0), MainScore(recorder, head))
          << "nothing removed, no bit moved";
      for (int removal = 1; removal <= 4; ++removal) {
        const auto& list = request.slash_profile().removals(removal - 1).pairs();
        // inv_freq of the fixtures falls, so that the order of frequency is that of storage.
        std::vector<int64_t> stored;
        for (const int32_t pair : list) stored.push_back(pair - 1);
        const double score = ScoreByLoop(expected, config, head, stored, request.slash_profile());
        const v1::SlashBlock& block = *Find(recorder, removal, head);
        EXPECT_NEAR(block.mean(0), score, 1e-5 * score) << head.layer << " " << head.head << " " << removal;
        EXPECT_EQ(block.first_offset(), head.offset);
        EXPECT_EQ(block.m2(0), 0.0);
      }
    }
    EXPECT_EQ(recorder.done, recorder.total);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Removals,
                         ::testing::Values("llama2_a", "llama3_a", "mistral_a", "gemma2_a", "qwen3_a",
                                           "olmo2_a", "stories260K"));

TEST(RemovalScores, OfAllPairsMakeAPlantedHeadUniform) {
  ropelab::unit::TemporaryDirectory directory;
  formats::PlantOptions options;
  options.out = directory.path() + "/planted";
  options.head_dim = 16;
  options.heads = 4;
  options.kv_heads = 2;
  options.context = 256;
  options.slashes = {{0, 1, 5}};
  ASSERT_TRUE(formats::Plant(options).ok());
  const auto model = model::LoadModel(options.out, at::kFloat, at::kCPU, 0, [](int64_t, int64_t) {});
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<int32_t> ids(256);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 37) % 250);
  v1::Measurement request = Request({ids}, {{0, 1, 5}});
  Remove(request, {1, 2, 3, 4, 5, 6, 7, 8});
  ListRecorder recorder;
  const auto outcome = Measure(request, model->get(), {}, recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_GT(MainScore(recorder, {0, 1, 5}), 0.8);
  double uniform = 0;
  for (int i = 9; i < 256; ++i) uniform += 1.0 / (i + 1) / 247;
  EXPECT_NEAR(Find(recorder, 1, {0, 1, 5})->mean(0), uniform, 1e-5 * uniform);
}

TEST(RemovalScores, GiveMeanAndSquaredDeviationsOverPromptsOfDifferentLengths) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  const std::vector<int32_t> ids = Ids(ExpectedTensors("stories260K").at("input_ids"));
  const Head head = {2, 3, 2};
  std::vector<double> scores;
  for (const auto& prompt : {ids, std::vector<int32_t>(ids.begin(), ids.begin() + 40)}) {
    v1::Measurement request = Request({prompt}, {head});
    Remove(request, {1});
    ListRecorder recorder;
    ASSERT_TRUE(Measure(request, model.get(), {}, recorder).ok());
    scores.push_back(Find(recorder, 1, head)->mean(0));
  }
  v1::Measurement request = Request({ids, {ids.begin(), ids.begin() + 40}}, {head});
  Remove(request, {1});
  ListRecorder recorder;
  ASSERT_TRUE(Measure(request, model.get(), {}, recorder).ok());
  const v1::SlashBlock& block = *Find(recorder, 1, head);
  EXPECT_EQ(block.prompts(), 2);
  EXPECT_NEAR(block.mean(0), (scores[0] + scores[1]) / 2, 1e-15);
  EXPECT_NEAR(block.m2(0), std::pow(scores[0] - scores[1], 2) / 2, 1e-15);
}

// The cell and the diagonals of one map, from its readings.
struct Map {
  int64_t size = 0;
  std::vector<double> cells, diagonals;
};
Map MapOf(const ListRecorder& recorder, const Head& head) {
  Map map;
  for (const v1::Reading& reading : recorder.readings) {
    const v1::MapBlock& block = reading.map_block();
    if (!reading.has_map_block() || block.layer() != head.layer || block.head() != head.head) continue;
    map.size = block.size();
    EXPECT_EQ(block.first_cell(), block.cells_size() > 0 ? static_cast<int64_t>(map.cells.size()) : 0);
    map.cells.insert(map.cells.end(), block.cells().begin(), block.cells().end());
    map.diagonals.insert(map.diagonals.end(), block.diagonals().begin(), block.diagonals().end());
  }
  return map;
}

// A single entry of the other implementation's fp32 attention is only known to 5e-6.
TEST(Maps, AreTheMeansOfTheirCellsAndDiagonals) {
  for (const char* name : {"llama3_a", "mistral_a"}) {
    ROPELAB_NEED_FIXTURE(name);
    const auto model = LoadFixture(name);
    const auto expected = ExpectedTensors(name);
    const std::vector<int32_t> ids = Ids(expected.at("input_ids"));
    const int64_t n = static_cast<int64_t>(ids.size());
    const Head head = {1, 2, 0};
    for (const int64_t size : {int64_t{7}, int64_t{256}}) {
      v1::Measurement request = Request({ids, ids}, {{0, 1, 0}, head});
      request.mutable_slash_profile()->set_map_size(size);
      ListRecorder recorder;
      const auto outcome = Measure(request, model.get(), {}, recorder);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      const Map map = MapOf(recorder, head);
      const int64_t cells = std::min(size, n);
      ASSERT_EQ(map.size, cells);
      ASSERT_EQ(static_cast<int64_t>(map.cells.size()), cells * cells);
      ASSERT_EQ(static_cast<int64_t>(map.diagonals.size()), n);
      const at::Tensor attention = expected.at("attn_probs")[head.layer][head.head];
      const auto s = attention.accessor<float, 2>();
      std::vector<double> sums(cells * cells), counts(cells * cells), diagonals(n);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
          const int64_t cell = n > size ? i * size / n * cells + j * size / n : i * cells + j;
          sums[cell] += s[i][j];
          ++counts[cell];
          diagonals[i - j] += s[i][j] / static_cast<double>(n - (i - j));
        }
      }
      for (int64_t c = 0; c < cells * cells; ++c) {
        EXPECT_EQ(std::isnan(map.cells[c]), counts[c] == 0) << c;
        if (counts[c] > 0) {
          EXPECT_NEAR(map.cells[c], sums[c] / counts[c], 5e-6) << c;
        }
      }
      for (int64_t d = 0; d < n; ++d) EXPECT_NEAR(map.diagonals[d], diagonals[d], 5e-6) << d;
    }
  }
}

TEST(NamedHeads, GiveTheSameBitsWithAnyNumberOfThreads) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  std::vector<int32_t> ids(500);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 131 % 512);
  v1::Measurement request = Request({ids, ids}, {{0, 1, 3}, {0, 5, 0}, {3, 2, 7}});
  request.mutable_slash_profile()->set_map_size(64);
  Remove(request, {1, 3});
  const int threads = at::get_num_threads();
  std::vector<std::string> first;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    ListRecorder recorder;
    ASSERT_TRUE(Measure(request, model.get(), {}, recorder).ok());
    std::vector<std::string> readings;
    for (const v1::Reading& reading : recorder.readings) readings.push_back(reading.SerializeAsString());
    if (first.empty()) first = readings;
    EXPECT_EQ(readings, first) << count;
  }
  at::set_num_threads(threads);
}

TEST(NamedHeads, AreRefusedWhereTheyCannotBeMeasured) {
  ROPELAB_NEED_FIXTURE("llama2_a");
  const auto model = LoadFixture("llama2_a");
  const std::vector<int32_t> ids(40, 1);
  const auto refusal = [&](v1::Measurement request) {
    ListRecorder recorder;
    const absl::Status status = Measure(request, model.get(), {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const int32_t pairs = static_cast<int32_t>(model->config.head_dim / 2);
  v1::Measurement request = Request({ids}, {{0, 0, 3}});
  Remove(request, {pairs + 1});
  EXPECT_THAT(refusal(request), HasSubstr("pairs are 1 to"));
  request = Request({ids}, {{0, 0, 3}});
  Remove(request, {2, 2});
  EXPECT_THAT(refusal(request), HasSubstr("ascending"));
  request = Request({ids}, {{0, 0, 13}});
  Remove(request, {1});
  EXPECT_THAT(refusal(request), HasSubstr("L0H0 has offset 13"));
  request = Request({ids}, {{0, 999, 3}});
  EXPECT_THAT(refusal(request), HasSubstr("L0H999 is not in the model"));
  request = Request({ids}, {{0, 1, 3}, {0, 0, 3}});
  EXPECT_THAT(refusal(request), HasSubstr("out of order"));
  request = Request({ids, std::vector<int32_t>(41, 1)}, {{0, 1, 3}});
  request.mutable_slash_profile()->set_map_size(16);
  EXPECT_THAT(refusal(request), HasSubstr("one length"));
  request = Request({ids}, {});
  request.mutable_slash_profile()->set_map_size(16);
  EXPECT_THAT(refusal(request), HasSubstr("none is named"));
}

}  // namespace
}  // namespace ropelab::measure
