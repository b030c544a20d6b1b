// Needle metrics against plain sums over the attention that another implementation computed (the fixtures'
// attn_probs), and by hand on attention that is even.
#include "worker/measure/needle_scores.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "tests/unit/engine/counted_memory.h"
#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"

namespace ropelab::measure {
namespace {

using engine::ExpectedTensors;
using engine::FixtureModel;
using engine::Ids;
using engine::LoadFixture;
using engine::MadeModel;
using engine::SmallConfig;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

absl::Status GoOn() {
  return absl::OkStatus();
}

NeedleMetrics All(v1::Span::Value span) {
  return {true, true, true, true, true, span};
}

// `ids` with its last `answer` tokens as the answer.
struct Sample {
  RealisedNeedle needle;
  ForcedAnswer forced;
};
Sample SampleOf(const std::vector<int32_t>& ids, std::pair<int64_t, int64_t> needle,
                std::pair<int64_t, int64_t> code, const std::vector<int64_t>& occurrences) {
  const auto prompt = static_cast<int64_t>(ids.size() - occurrences.size());
  Sample sample;
  sample.needle.ids.assign(ids.begin(), ids.begin() + prompt);
  v1::RealisedNeedle& facts = sample.needle.facts;
  facts.set_sample(3);
  facts.set_fits(true);
  facts.set_tokens(prompt);
  facts.mutable_needle()->set_first(needle.first);
  facts.mutable_needle()->set_last(needle.second);
  facts.mutable_code()->set_first(code.first);
  facts.mutable_code()->set_last(code.second);
  sample.forced = {ids, prompt, occurrences};
  return sample;
}

v1::NeedleHeads Scored(const model::LoadedModel& model, const Sample& sample, const NeedleMetrics& metrics) {
  const auto heads = ScoreNeedle(model, sample.needle, sample.forced, metrics, GoOn);
  EXPECT_TRUE(heads.ok()) << heads.status();
  return heads.ok() ? *heads : v1::NeedleHeads();
}

class NeedleParity : public testing::TestWithParam<const char*> {};

TEST_P(NeedleParity, EveryMetricIsThatOfTheOtherImplementationsAttention) {
  ROPELAB_NEED_FIXTURE(GetParam());
  const auto model = LoadFixture(GetParam());
  const auto expected = ExpectedTensors(GetParam());
  const std::vector<int32_t> ids = Ids(expected.at("input_ids"));
  at::Tensor attention = expected.at("attn_probs").to(at::kDouble);
  if (attention.dim() == 5) attention = attention.squeeze(1);
  const auto tokens = static_cast<int64_t>(ids.size());
  const std::vector<int64_t> same = {tokens / 3 + 1, -1, tokens / 3, tokens / 3 + 3};
  const int64_t prompt = tokens - 4, a = prompt - 1;
  for (const auto span : {v1::Span::NEEDLE, v1::Span::CODE}) {
    // Long spans close to the end, so that some argmax hits.
    const int64_t first = prompt / 3, last = prompt - 3;
    const int64_t code = span == v1::Span::CODE ? prompt / 2 : first;
    const v1::NeedleHeads heads =
        Scored(*model, SampleOf(ids, {first, last}, {prompt / 2, last}, same), All(span));
    EXPECT_EQ(heads.realised().sample(), 3);
    const int64_t count = model->config.layers * model->config.query_heads;
    ASSERT_EQ(heads.argmax_size(), count);
    ASSERT_EQ(heads.copy_wu_size(), count);
    int hits = 0;
    double worst = 0;
    for (int64_t h = 0; h < count; ++h) {
      const at::Tensor head = attention[h / model->config.query_heads][h % model->config.query_heads];
      const auto largest = [&](int64_t row) { return at::argmax(head[row]).item<int64_t>(); };
      const auto mass = [&](int64_t row, int64_t from, int64_t to) {
        return head[row].narrow(0, from, to - from + 1).sum().item<double>();
      };
      double paper = 0, per_token = 0, wu = 0;
      for (int64_t t = 0; t < 4; ++t) {
        paper += mass(prompt + t, first, last) / 4;
        if (same[t] >= 0) per_token += mass(prompt + t, same[t], same[t]) / 4;
        wu += same[t] == largest(prompt + t - 1) ? 0.25 : 0;
      }
      const int i = static_cast<int>(h);
      EXPECT_EQ(heads.argmax(i), largest(a) >= code && largest(a) <= last ? 1 : 0) << h;
      hits += heads.argmax(i) == 1;
      EXPECT_EQ(heads.copy_wu(i), wu) << h;
      for (const double distance : {heads.mass(i) - mass(a, code, last), heads.copy_paper(i) - paper,
                                    heads.copy_paper_per_token(i) - per_token}) {
        worst = std::max(worst, std::abs(distance));
      }
    }
    EXPECT_LT(worst, 5e-5);
    std::cout << GetParam() << ": " << hits << " of " << count << " hit, worst distance " << worst
              << std::endl;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, NeedleParity,
                         testing::Values("llama2_a", "llama3_a", "mistral_a", "qwen2_a", "qwen3_a",
                                         "gemma2_a", "olmo2_a"),
                         [](const auto& info) { return std::string(info.param); });

// Every head attends evenly to what it sees: 80 of the prompt's tokens, and in layer 1 a window of 16.
model::LoadedModel EvenModel() {
  formats::ModelConfig config = SmallConfig();
  config.sliding_window = {0, 16};
  model::LoadedModel model = MadeModel(config);
  for (model::LayerWeights& layer : model.weights.layers) layer.query.zero_();
  return model;
}

std::vector<int32_t> Prompt(int tokens) {
  std::vector<int32_t> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back((i * i + 3 * i) % 90);
  return ids;
}

TEST(NeedleScores, TiesGoToTheFirstPositionAndNothingLiesOutsideAWindow) {
  const model::LoadedModel model = EvenModel();
  // 80 tokens and an answer of 2; row 79 sees 0..79 in layer 0 and 64..79 in layer 1.
  const auto at_the_start =
      Scored(model, SampleOf(Prompt(82), {0, 9}, {0, 4}, {0, 64}), All(v1::Span::NEEDLE));
  EXPECT_THAT(at_the_start.argmax(), ElementsAre(1, 1, 1, 1, 0, 0, 0, 0));
  EXPECT_FLOAT_EQ(at_the_start.mass(0), 10.0 / 80);
  EXPECT_EQ(at_the_start.mass(4), 0);
  // Rows 79 and 80 predict: position 0 is the first largest of both in layer 0, 64 and 65 in layer 1.
  EXPECT_THAT(at_the_start.copy_wu(), ElementsAre(0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0));
  EXPECT_NEAR(at_the_start.copy_paper(0), (10.0 / 81 + 10.0 / 82) / 2, 1e-7);
  EXPECT_EQ(at_the_start.copy_paper(4), 0);
  EXPECT_NEAR(at_the_start.copy_paper_per_token(0), (1.0 / 81 + 1.0 / 82) / 2, 1e-8);

  const auto across = Scored(model, SampleOf(Prompt(82), {60, 69}, {64, 66}, {64, 65}), All(v1::Span::CODE));
  EXPECT_THAT(across.argmax(), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_NEAR(across.mass(0), 3.0 / 80, 1e-8);
  EXPECT_NEAR(across.mass(4), 3.0 / 16, 1e-8);
  EXPECT_THAT(across.copy_wu(), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  // The whole needle, of which rows 80 and 81 see 65..69 and 66..69.
  EXPECT_NEAR(across.copy_paper(4), (5.0 / 16 + 4.0 / 16) / 2, 1e-8);
  EXPECT_NEAR(across.copy_paper_per_token(4), 0, 0);
}

TEST(NeedleScores, OnlyWhatIsAskedForIsTaken) {
  const model::LoadedModel model = EvenModel();
  Sample sample = SampleOf(Prompt(80), {0, 9}, {0, 4}, {});
  NeedleMetrics metrics{.mass = true, .span = v1::Span::CODE};
  const v1::NeedleHeads mass = Scored(model, sample, metrics);
  EXPECT_EQ(mass.mass_size(), 8);
  EXPECT_EQ(
      mass.argmax_size() + mass.copy_paper_size() + mass.copy_paper_per_token_size() + mass.copy_wu_size(),
      0);
  sample = SampleOf(Prompt(82), {0, 9}, {0, 4}, {0, -1});
  const v1::NeedleHeads copies = Scored(model, sample, {.copy_wu = true});
  EXPECT_THAT(copies.copy_wu(), ElementsAre(0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0));
  EXPECT_EQ(copies.mass_size() + copies.argmax_size(), 0);
}

TEST(NeedleScores, BitsDoNotDependOnThreadsNorOnWhatElseIsAsked) {
  const model::LoadedModel model = MadeModel(SmallConfig(), at::kBFloat16);
  const Sample sample = SampleOf(Prompt(300), {100, 180}, {150, 160}, {150, 151, -1, 153});
  const int threads = at::get_num_threads();
  const std::string expected = Scored(model, sample, All(v1::Span::NEEDLE)).SerializeAsString();
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    EXPECT_EQ(Scored(model, sample, All(v1::Span::NEEDLE)).SerializeAsString(), expected);
  }
  at::set_num_threads(threads);
  v1::NeedleHeads whole;
  whole.ParseFromString(expected);
  const v1::NeedleHeads paper = Scored(model, sample, {.copy_paper = true});
  EXPECT_THAT(paper.copy_paper(), testing::ElementsAreArray(whole.copy_paper()));
}

TEST(NeedleScores, KeepNoAttention) {
  formats::ModelConfig config = SmallConfig();
  config.query_heads = 8;
  config.max_positions = 2000;
  const model::LoadedModel model = MadeModel(config);
  const Sample sample = SampleOf(Prompt(1900), {100, 180}, {150, 160}, {150, 151, -1, 153});
  const engine::CountedMemory counted;
  const int64_t peak = engine::CountedMemory::Peak([&] { Scored(model, sample, All(v1::Span::NEEDLE)); });
  EXPECT_LE(peak, ScoreNeedleBytes(model, 1900, 4, at::get_num_threads()));
}

TEST(NeedleScores, RefuseRequestsThatAreNotInOrder) {
  const auto refusal = [](const std::vector<int>& metrics, v1::Span::Value span) {
    v1::NeedleAttention request;
    for (const int metric : metrics) request.add_metrics(static_cast<v1::Metric::Value>(metric));
    if (span != v1::Span::UNSPECIFIED) request.set_span(span);
    const absl::Status status = ReadNeedleMetrics(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({}, v1::Span::NEEDLE), HasSubstr("metrics is empty"));
  EXPECT_THAT(refusal({1, 1}, v1::Span::NEEDLE), HasSubstr("ARGMAX is out of place"));
  EXPECT_THAT(refusal({3, 2}, v1::Span::NEEDLE), HasSubstr("MASS is out of place"));
  EXPECT_THAT(refusal({0}, v1::Span::NEEDLE), HasSubstr("metrics holds 0"));
  EXPECT_THAT(refusal({6}, v1::Span::NEEDLE), HasSubstr("metrics holds 6"));
  EXPECT_THAT(refusal({2}, v1::Span::UNSPECIFIED), HasSubstr("span is not given"));
}

TEST(NeedleScores, PlacesOutsideThePromptAreNeverReadAsMisses) {
  const model::LoadedModel model = EvenModel();
  const auto code_of = [&](const Sample& sample) {
    return ScoreNeedle(model, sample.needle, sample.forced, All(v1::Span::NEEDLE), GoOn).status().code();
  };
  EXPECT_EQ(code_of(SampleOf(Prompt(82), {-1, -1}, {0, 4}, {0, 1})), absl::StatusCode::kInternal);
  EXPECT_EQ(code_of(SampleOf(Prompt(82), {3, 80}, {3, 4}, {3, 4})), absl::StatusCode::kInternal);
  EXPECT_EQ(code_of(SampleOf(Prompt(82), {3, 9}, {9, 8}, {3, 4})), absl::StatusCode::kInternal);
  EXPECT_EQ(code_of(SampleOf(Prompt(82), {3, 9}, {3, 4}, {3, 80})), absl::StatusCode::kInternal);
  EXPECT_EQ(code_of(SampleOf(Prompt(82), {3, 9}, {3, 4}, {})), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace ropelab::measure
