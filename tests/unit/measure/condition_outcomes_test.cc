// Losses of plain text under low-rank edits against numpy's, and what their bits do not depend on.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/condition_numpy_values.h"
#include "tests/unit/measure/condition_request.h"
#include "tests/unit/measure/list_recorder.h"
#include "worker/engine/edited_weights.h"

namespace ropelab::measure {
namespace {

using engine::ExpectedTensors;
using engine::FixtureModel;
using engine::Ids;
using engine::LoadFixture;
using engine::MadeModel;
using testing::HasSubstr;

std::vector<v1::Condition> NumpysConditions() {
  return {ConditionOf({}), ConditionOf({LowRank({{1, 2}}, 3, {kQuery})}),
          ConditionOf({LowRank({{1, 2}}, 4, {kKey})}),
          ConditionOf({LowRank({{0, 1}, {2, 0}, {2, 1}}, 2, {kQuery, kKey})})};
}

class ConditionParity : public testing::TestWithParam<int> {
 protected:
  const NumpyConditions& numpy() const { return NumpyConditionValues()[static_cast<size_t>(GetParam())]; }
};

TEST_P(ConditionParity, EveryLossIsNumpys) {
  ROPELAB_NEED_FIXTURE(numpy().fixture);
  const auto model = LoadFixture(numpy().fixture);
  const std::vector<int32_t> ids = Ids(ExpectedTensors(numpy().fixture).at("input_ids"));
  ListRecorder recorder;
  const auto outcome = Measure(ConditionRequest({ids}, NumpysConditions()), model.get(), {}, recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->fed_ids_digest.size(), 64u);
  const std::vector<double> expected = {numpy().nll, numpy().query, numpy().key, numpy().both};
  ASSERT_EQ(recorder.readings.size(), expected.size());
  double worst = 0;
  for (size_t c = 0; c < expected.size(); ++c) {
    const v1::PromptLoss& loss = recorder.readings[c].prompt_loss();
    EXPECT_EQ(loss.sample(), 0);
    EXPECT_EQ(loss.condition(), static_cast<int64_t>(c));
    EXPECT_EQ(loss.tokens(), 63);
    EXPECT_NEAR(loss.nll(), expected[c], 1e-5 * expected[c]) << c;
    worst = std::max(worst, std::abs(loss.nll() / expected[c] - 1));
  }
  std::cout << numpy().fixture << ": worst relative distance " << worst << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ConditionParity,
                         testing::Range(0, static_cast<int>(NumpyConditionValues().size())),
                         [](const auto& info) {
                           return std::string(
                               NumpyConditionValues()[static_cast<size_t>(info.param)].fixture);
                         });

formats::ModelConfig FiveLayers() {
  formats::ModelConfig config = engine::SmallConfig();
  config.layers = 5;
  config.sliding_window = {0, 20, 0, 20, 0};
  return config;
}

// First edited layers 4, 0, none, 2, 2, none again, 1.
std::vector<v1::Condition> ManyLowRanks() {
  return {ConditionOf({LowRank({{4, 0}}, 2, {kQuery, kKey})}),
          ConditionOf({LowRank({{0, 3}}, 1, {kKey}), LowRank({{3, 1}}, 4, {kQuery})}),
          ConditionOf({}),
          ConditionOf({LowRank({{2, 1}, {4, 2}}, 3, {kQuery})}),
          ConditionOf({LowRank({{2, 0}, {2, 1}}, 2, {kKey})}),
          ConditionOf({LowRank({{1, 1}}, 12, {kQuery})}),
          ConditionOf({LowRank({{1, 0}, {1, 1}, {1, 2}, {1, 3}}, 1, {kQuery, kKey})})};
}

std::vector<std::vector<int32_t>> SomePrompts() {
  std::vector<std::vector<int32_t>> prompts(3);
  for (int i = 0; i < 140; ++i) prompts[0].push_back((i * i + 3 * i) % 90);
  for (int i = 0; i < 65; ++i) prompts[1].push_back((i * i + 5 * i) % 90);
  prompts[2] = {17, 3};
  return prompts;
}

using Losses = std::map<std::pair<int64_t, int64_t>, double>;

Losses LossesOf(const v1::Measurement& request, const model::LoadedModel& model) {
  ListRecorder recorder;
  const auto outcome = Measure(request, &model, {}, recorder);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(recorder.done, recorder.total);
  Losses losses;
  std::pair<int64_t, int64_t> before{-1, -1};
  for (const v1::Reading& reading : recorder.readings) {
    const v1::PromptLoss& loss = reading.prompt_loss();
    EXPECT_LT(before, std::pair(loss.sample(), loss.condition()));
    before = {loss.sample(), loss.condition()};
    losses[before] = loss.nll();
  }
  return losses;
}

// A model that has the condition's matrices, made one by one, for its own: 4 heads of 12 on 2 KV heads.
model::LoadedModel ModelUnder(const v1::Condition& condition, const model::LoadedModel& model) {
  model::LoadedModel edited = model;
  const auto replace = [&](int64_t layer, engine::Projection projection, int64_t head, int64_t rank) {
    const bool query = projection == engine::Projection::kQuery;
    const model::LayerWeights low = engine::LowRankLayer(model, layer, {{{layer, projection, head}, rank}});
    at::Tensor& whole = query ? edited.weights.layers[layer].query : edited.weights.layers[layer].key;
    whole = whole.clone();
    whole.narrow(0, head * 12, 12).copy_((query ? low.query : low.key).narrow(0, head * 12, 12));
  };
  for (const v1::Intervention& intervention : condition.interventions()) {
    const v1::LowRankEdit& edit = intervention.low_rank();
    for (const v1::Head& head : edit.heads().list().head()) {
      for (const int matrix : edit.matrices()) {
        if (matrix == kQuery) replace(head.layer(), engine::Projection::kQuery, head.head(), edit.rank());
        if (matrix == kKey) replace(head.layer(), engine::Projection::kKey, head.head() / 2, edit.rank());
      }
    }
  }
  return edited;
}

TEST(ConditionOutcomes, EveryConditionEqualsItselfAloneAndFromLayer0BitForBit) {
  const auto prompts = SomePrompts();
  const auto conditions = ManyLowRanks();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const model::LoadedModel model = MadeModel(FiveLayers(), dtype);
    const Losses together = LossesOf(ConditionRequest(prompts, conditions), model);
    ASSERT_EQ(together.size(), 21u);
    for (int64_t c = 0; c < 7; ++c) {
      const size_t place = static_cast<size_t>(c);
      const Losses alone = LossesOf(ConditionRequest({prompts[1]}, {conditions[place]}), model);
      EXPECT_EQ(alone.at({0, 0}), together.at({1, c})) << c << dtype;
      const model::LoadedModel edited = ModelUnder(conditions[place], model);
      const Losses whole = LossesOf(ConditionRequest(prompts, {ConditionOf({})}), edited);
      for (int64_t sample = 0; sample < 3; ++sample)
        EXPECT_EQ(whole.at({sample, 0}), together.at({sample, c})) << sample << " " << c << dtype;
    }
    EXPECT_EQ(together.at({0, 2}), together.at({0, 5}));
    EXPECT_NE(together.at({0, 2}), together.at({0, 6}));
  }
}

TEST(ConditionOutcomes, BitsDependNeitherOnThreadsNorOnOrderNorOnTheBlock) {
  const auto prompts = SomePrompts();
  auto conditions = ManyLowRanks();
  const int threads = at::get_num_threads();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const model::LoadedModel model = MadeModel(FiveLayers(), dtype);
    const Losses expected = LossesOf(ConditionRequest(prompts, conditions), model);
    for (const int count : {2, 3}) {
      at::set_num_threads(count);
      EXPECT_EQ(LossesOf(ConditionRequest(prompts, conditions), model), expected) << count;
    }
    at::set_num_threads(threads);
    std::ranges::reverse(conditions);
    v1::Measurement turned = ConditionRequest({prompts[2], prompts[0]}, conditions);
    turned.mutable_condition_outcomes()->mutable_prompts()->mutable_samples()->set_first_sample(16);
    for (const auto& [place, nll] : LossesOf(turned, model)) {
      const auto [sample, condition] = place;
      EXPECT_EQ(nll, expected.at({sample == 16 ? 2 : 0, 6 - condition}));
    }
    std::ranges::reverse(conditions);
  }
}

v1::Intervention ZeroHeads(const std::vector<std::pair<int, int>>& heads) {
  v1::Intervention intervention;
  for (const auto& [layer, head] : heads) {
    v1::Head& named = *intervention.mutable_zero_head()->mutable_heads()->mutable_list()->add_head();
    named.set_layer(layer);
    named.set_head(head);
  }
  intervention.mutable_zero_head()->set_positions(v1::EditPositions::ALL);
  return intervention;
}

TEST(ConditionOutcomes, AHeadWithoutOutputIsOneWhoseColumnsOfTheOutputProjectionAreZero) {
  const auto prompts = SomePrompts();
  const std::vector<std::vector<std::pair<int, int>>> heads = {{{4, 1}}, {{0, 0}, {3, 2}}, {{2, 3}, {2, 1}}};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const model::LoadedModel model = MadeModel(FiveLayers(), dtype);
    std::vector<v1::Condition> conditions = {ConditionOf({})};
    for (const auto& named : heads) conditions.push_back(ConditionOf({ZeroHeads(named)}));
    // With a low rank beside it.
    conditions.push_back(ConditionOf({ZeroHeads(heads[2]), LowRank({{1, 0}}, 2, {kQuery, kKey})}));
    const Losses together = LossesOf(ConditionRequest(prompts, conditions), model);
    for (size_t c = 1; c < conditions.size(); ++c) {
      model::LoadedModel edited =
          c == 4 ? ModelUnder(ConditionOf({LowRank({{1, 0}}, 2, {kQuery, kKey})}), model) : model;
      for (const auto& [layer, head] : heads[std::min<size_t>(c - 1, 2)]) {
        at::Tensor& output = edited.weights.layers[static_cast<size_t>(layer)].output;
        output = output.clone();
        output.narrow(1, head * 12, 12).zero_();
      }
      const Losses whole = LossesOf(ConditionRequest(prompts, {ConditionOf({})}), edited);
      for (int64_t sample = 0; sample < 3; ++sample) {
        EXPECT_EQ(whole.at({sample, 0}), together.at({sample, static_cast<int64_t>(c)})) << c << dtype;
      }
      EXPECT_NE(together.at({0, 0}), together.at({0, static_cast<int64_t>(c)}));
    }
  }
}

TEST(ConditionOutcomes, LeavesTheModelAsItWas) {
  const model::LoadedModel model = MadeModel(FiveLayers());
  std::vector<at::Tensor> before;
  for (const auto& layer : model.weights.layers) {
    before.push_back(layer.query.clone());
    before.push_back(layer.key.clone());
  }
  LossesOf(ConditionRequest(SomePrompts(), ManyLowRanks()), model);
  for (size_t layer = 0; layer < 5; ++layer) {
    EXPECT_TRUE(at::equal(model.weights.layers[layer].query, before[2 * layer]));
    EXPECT_TRUE(at::equal(model.weights.layers[layer].key, before[2 * layer + 1]));
  }
}

TEST(ConditionOutcomes, RefusesWhatHasNothingToSay) {
  const model::LoadedModel model = MadeModel(FiveLayers());
  ListRecorder recorder;
  const auto refusal = [&](const v1::Measurement& request) {
    const absl::Status status = Measure(request, &model, {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(ConditionRequest({{1, 2}}, {})), HasSubstr("conditions is empty"));
  EXPECT_THAT(refusal(ConditionRequest({{1, 2}, {3}}, {ConditionOf({})})),
              HasSubstr("sample 1 has one token, which leaves nothing to predict"));
  EXPECT_THAT(refusal(ConditionRequest({{1, 90}}, {ConditionOf({})})), HasSubstr("token id 90"));
  EXPECT_THAT(
      refusal(ConditionRequest({{1, 2}}, {ConditionOf({}), ConditionOf({LowRank({{5, 0}}, 1, {kKey})})})),
      HasSubstr("conditions[1].interventions[0].low_rank.heads.list.head[0] is L5H0"));
  EXPECT_TRUE(recorder.readings.empty());
}

TEST(ConditionOutcomes, SaysWhereTheModelDoesNotComputeInItsDtype) {
  model::LoadedModel model = MadeModel(FiveLayers(), at::kHalf);
  model.weights.layers[3].down.fill_(60000);
  ListRecorder recorder;
  const auto status = [&](const v1::Condition& condition) {
    return Measure(ConditionRequest({{3, 4, 5}}, {condition}), &model, {}, recorder).status();
  };
  const absl::Status whole = status(ConditionOf({}));
  EXPECT_EQ(whole.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(whole.message()), HasSubstr("sample 0, condition 0: "));
  const absl::Status below = status(ConditionOf({LowRank({{4, 0}}, 1, {kKey})}));
  EXPECT_EQ(below.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ConditionOutcomes, StopsAtOnceWhenTheLeaseIsGone) {
  const model::LoadedModel model = MadeModel(FiveLayers());
  for (const int call : {1, 7, 20}) {
    ListRecorder recorder;
    recorder.cancel_at_call = call;
    EXPECT_EQ(Measure(ConditionRequest(SomePrompts(), ManyLowRanks()), &model, {}, recorder).status().code(),
              absl::StatusCode::kCancelled);
    EXPECT_EQ(recorder.calls, call);
    EXPECT_TRUE(recorder.readings.empty());
  }
}

}  // namespace
}  // namespace ropelab::measure
