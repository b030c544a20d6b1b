// Greedy answers under conditions: alone as in the batch, bit for bit, and as passes over prompt and answer
// without a cache give them.
#include "worker/engine/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <set>

#include "tests/unit/engine/edited_model.h"
#include "tests/unit/engine/fixtures.h"
#include "worker/engine/condition_decoder.h"
#include "worker/engine/edited_weights.h"
#include "worker/engine/layer_ops.h"

namespace ropelab::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMostTokens = 12;
const std::vector<int32_t> kSomeDims = {0, 3, 4, 7};

absl::Status GoOn() {
  return absl::OkStatus();
}

// Conditions of every kind, more than there are rows, on a model of at least 4 layers and 4 heads; their
// first edited layers are not in order.
struct Conditions {
  explicit Conditions(const model::LoadedModel& model, int64_t tokens) {
    Add({ScaleEdit(3, 1, kSomeDims, 0)});
    Add({});
    Add({ZeroHeadEdit(0, 0), ZeroHeadEdit(2, 3)});
    Add({UnrotateEdit(1, 2, {0, 1, 3}),
         ScaleEdit(1, 3, kSomeDims, 2, EditTarget::kKey, EditStage::kPostRope)});
    Add({ScaleEdit(1, 0, kSomeDims, 0, EditTarget::kBoth, EditStage::kProjection)});
    Add({From(ScaleEdit(2, 2, kSomeDims, -3), tokens)});  // of the answer alone
    Add({From(ZeroHeadEdit(0, 1), tokens + 2), From(UnrotateEdit(2, 0, {2}), tokens - 3)});
    Add({}, {{{1, Projection::kQuery, 1}, 1}, {{2, Projection::kKey, 0}, 1}}, model);
    Add({ZeroHeadEdit(2, 1)}, {{{1, Projection::kKey, 1}, 2}}, model);
    Add({UnrotateEdit(0, 0, {0}), UnrotateEdit(0, 3, {1})});
    Add({});
  }
  void Add(HeadEdits heads) {
    edits.push_back(std::make_unique<HeadEdits>(std::move(heads))), Close(nullptr);
  }
  void Add(HeadEdits heads, const LowRanks& ranks, const model::LoadedModel& model) {
    edits.push_back(std::make_unique<HeadEdits>(std::move(heads)));
    layers.push_back(std::make_unique<EditedLayers>());
    for (const auto& [matrix, rank] : ranks) {
      (*layers.back())[matrix.layer] = LowRankLayer(model, matrix.layer, ranks);
    }
    Close(layers.back().get());
  }
  void Close(const EditedLayers* edited) { all.push_back({edits.back().get(), edited}); }

  std::vector<std::unique_ptr<HeadEdits>> edits;
  std::vector<std::unique_ptr<EditedLayers>> layers;
  std::vector<Condition> all;
};

// Logits of a condition's decoding as its answer is fed, the first of `rows` rows: [answer tokens, V].
at::Tensor Decoded(const model::LoadedModel& model, const std::vector<int32_t>& ids,
                   const Condition& condition, const std::vector<int32_t>& answer, int64_t rows) {
  const int64_t tokens = static_cast<int64_t>(ids.size());
  const EditsByLayer edits =
      ReadyEdits(*condition.edits, model.config, formats::InverseFrequencies(model.config, tokens),
                 model.dtype, at::kCPU);
  PromptKeysKeeper keeper(model, tokens, edits, model.config.layers, GoOn);
  ForwardOptions options;
  options.head_edits = condition.edits;
  options.edited_layers = condition.edited_layers;
  options.logit_rows = {tokens - 1};
  const auto first = Forward(model, ids, options, keeper);
  if (!first.ok()) throw std::runtime_error(first.status().ToString());
  std::vector<at::Tensor> logits = {*first};
  const DecodeWeights weights(model);
  ConditionDecoder decoder(model, weights, {{&edits, condition.edited_layers, keeper.layers()}}, tokens,
                           kMostTokens, rows);
  std::vector<bool> live(static_cast<size_t>(rows), false);
  live[0] = true;
  for (size_t i = 0; i + 1 < answer.size(); ++i) {
    const std::vector<int32_t> ids_of_rows(static_cast<size_t>(rows), answer[i]);
    const auto step = decoder.Step(ids_of_rows, live);
    if (!step.ok()) throw std::runtime_error(step.status().ToString());
    logits.push_back(step->narrow(0, 0, 1));
  }
  return at::cat(logits, 0);
}

class Greedy : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    if (name == "stories260K") {
      ROPELAB_NEED_FIXTURE("stories260K");
      model_ = *LoadFixture("stories260K");
      for (int i = 0; i < 70; ++i) ids_.push_back((i * i * 7 + 31 * i) % 512);
      return;
    }
    formats::ModelConfig config = name == "plain" ? EditedConfig() : NormedConfig();
    model_ = MadeModel(config, name == "bf16" ? at::kBFloat16 : name == "fp16" ? at::kHalf : at::kFloat);
    ids_ = EditedPrompt(141);
  }
  model::LoadedModel model_;
  std::vector<int32_t> ids_;
};
INSTANTIATE_TEST_SUITE_P(Models, Greedy, testing::Values("plain", "normed", "bf16", "fp16", "stories260K"));

TEST_P(Greedy, AConditionAloneIsTheConditionInTheBatch) {
  const Conditions conditions(model_, static_cast<int64_t>(ids_.size()));
  const GreedyOptions options{kMostTokens, {}};
  const auto together = AnswerGreedily(model_, ids_, conditions.all, options, GoOn);
  ASSERT_TRUE(together.ok()) << together.status();
  ASSERT_EQ(together->size(), conditions.all.size());
  std::set<std::vector<int32_t>> different;
  for (size_t c = 0; c < conditions.all.size(); ++c) {
    const auto alone = AnswerGreedily(model_, ids_, {&conditions.all[c], 1}, options, GoOn);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ((*alone)[0], (*together)[c]) << c;
    EXPECT_EQ((*alone)[0].size(), static_cast<size_t>(kMostTokens));
    different.insert((*together)[c]);
  }
  EXPECT_GE(different.size(), 3u);  // the edits are not idle
}

// The same of the logits themselves, in every row of the batch.
TEST_P(Greedy, ARowsLogitsDependOnNoOtherRow) {
  const int64_t tokens = static_cast<int64_t>(ids_.size());
  const Conditions conditions(model_, tokens);
  const DecodeWeights weights(model_);
  std::vector<EditsByLayer> edits(kDecodeRows);
  std::vector<DecodedCondition> rows;
  std::vector<std::array<int32_t, kDecodeRows>> fed(4);
  for (int64_t r = 0; r < kDecodeRows; ++r) {
    const Condition& condition = conditions.all[r + 2];
    edits[r] = ReadyEdits(*condition.edits, model_.config, formats::InverseFrequencies(model_.config, tokens),
                          model_.dtype, at::kCPU);
    PromptKeysKeeper keeper(model_, tokens, edits[r], model_.config.layers, GoOn);
    ForwardOptions options;
    options.head_edits = condition.edits;
    options.edited_layers = condition.edited_layers;
    ASSERT_TRUE(Forward(model_, ids_, options, keeper).ok());
    rows.push_back({&edits[r], condition.edited_layers, keeper.layers()});
    for (size_t step = 0; step < fed.size(); ++step)
      fed[step][r] = static_cast<int32_t>(7 * r + 5 * step) % 90;
  }
  ConditionDecoder together(model_, weights, rows, tokens, 4);
  std::vector<at::Tensor> batch;
  for (const auto& ids : fed) batch.push_back(*together.Step(ids, std::vector<bool>(kDecodeRows, true)));
  std::vector<bool> live(kDecodeRows, false);
  live[0] = true;
  for (int64_t r = 0; r < kDecodeRows; ++r) {
    ConditionDecoder alone(model_, weights, {rows[r]}, tokens, 4);
    for (size_t step = 0; step < fed.size(); ++step) {
      std::array<int32_t, kDecodeRows> ids;
      ids.fill(ids_[0]);
      ids[0] = fed[step][r];
      EXPECT_TRUE(at::equal((*alone.Step(ids, live))[0], batch[step][r])) << r << " " << step;
    }
  }
}

// Checks that the answers are those of passes over prompt and answer without a cache, and that decoding a row
// alone, among other numbers of rows and in that pass gives the same logits. Returns the largest distance
// between any two of them.
double ExpectUncachedAnswers(const model::LoadedModel& model, const std::vector<int32_t>& ids,
                             const std::vector<Condition>& conditions) {
  const auto answers = AnswerGreedily(model, ids, conditions, {kMostTokens, {}}, GoOn);
  if (!answers.ok()) throw std::runtime_error(answers.status().ToString());
  double worst = 0;
  for (size_t c = 0; c < conditions.size(); ++c) {
    const std::vector<int32_t>& answer = (*answers)[c];
    std::vector<int32_t> whole = ids;
    whole.insert(whole.end(), answer.begin(), answer.end() - 1);
    const Shown uncached = PassUnder(model, whole, *conditions[c].edits, conditions[c].edited_layers);
    const at::Tensor logits = uncached.logits.narrow(0, static_cast<int64_t>(ids.size()) - 1, kMostTokens);
    EXPECT_EQ(Ids(logits.argmax(1)), answer) << c;
    const at::Tensor padded = Decoded(model, ids, conditions[c], answer, kDecodeRows);
    worst = std::max(worst, Distance(padded, logits));
    for (const int64_t rows : {1, 3}) {
      const at::Tensor unpadded = Decoded(model, ids, conditions[c], answer, rows);
      EXPECT_EQ(Ids(unpadded.argmax(1)), answer) << c << " " << rows;
      worst = std::max(worst, Distance(unpadded, padded));
    }
  }
  return worst;
}

// Where rows are independent the three have the same bits.
void ExpectNoDistance(const char* model, double worst) {
  std::cout << model << ": padded, unpadded and without a cache at most " << worst << " apart" << std::endl;
  EXPECT_EQ(worst, 0);
}

TEST_P(Greedy, AnswersAreThoseOfUnpaddedRunsAndOfUncachedPasses) {
  if (!RowsAreIndependent(model_.dtype, model_.device)) return;  // rounding decides ties elsewhere
  const Conditions conditions(model_, static_cast<int64_t>(ids_.size()));
  ExpectNoDistance(GetParam(), ExpectUncachedAnswers(model_, ids_, conditions.all));
}

// Every family of the reference checkpoints.
class GreedyFixtures : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, GreedyFixtures,
                         testing::Values("llama2_a", "llama3_a", "llama3bf16_a", "mistral_a", "qwen2_a",
                                         "qwen2f16_a", "qwen3_a", "gemma_a", "gemma2_a", "olmo2_a"));

TEST_P(GreedyFixtures, AnswersAreThoseOfUnpaddedRunsAndOfUncachedPasses) {
  ROPELAB_NEED_FIXTURE(GetParam());
  const auto model = LoadFixture(GetParam(), at::kFloat);
  std::vector<int32_t> ids;
  for (int i = 0; i < 140; ++i) ids.push_back((i * i * 7 + 31 * i) % 120);
  const HeadEdits none, knockout = {ZeroHeadEdit(0, 2), ZeroHeadEdit(2, 1)},
                        patch = {ScaleEdit(1, 3, kSomeDims, 0, EditTarget::kBoth)};
  ExpectNoDistance(GetParam(), ExpectUncachedAnswers(
                                   *model, ids, {{&none, nullptr}, {&knockout, nullptr}, {&patch, nullptr}}));
}

TEST(AnswerGreedily, AStopEndsAnAnswerAndBelongsToIt) {
  const model::LoadedModel model = MadeModel(EditedConfig());
  const std::vector<int32_t> ids = EditedPrompt(50);
  const HeadEdits knockout = {ZeroHeadEdit(0, 0), ZeroHeadEdit(1, 1)};
  const std::vector<Condition> conditions = {{}, {&knockout, nullptr}};
  const auto whole = AnswerGreedily(model, ids, conditions, {kMostTokens, {}}, GoOn);
  ASSERT_TRUE(whole.ok());
  const int32_t stop = (*whole)[0][4];
  const auto cut = AnswerGreedily(model, ids, conditions, {kMostTokens, {stop}}, GoOn);
  ASSERT_TRUE(cut.ok());
  for (size_t c = 0; c < 2; ++c) {
    std::vector<int32_t> expected = (*whole)[c];
    const auto at = std::find(expected.begin(), expected.end(), stop);
    if (at != expected.end()) expected.erase(at + 1, expected.end());
    EXPECT_EQ((*cut)[c], expected);
  }
  EXPECT_LE((*cut)[0].size(), 5u);
  const auto one = AnswerGreedily(model, ids, conditions, {1, {}}, GoOn);
  ASSERT_TRUE(one.ok());
  EXPECT_THAT((*one)[0], ElementsAre((*whole)[0][0]));
  EXPECT_TRUE(AnswerGreedily(model, ids, {}, {1, {}}, GoOn)->empty());
}

TEST(AnswerGreedily, WhatProgressReturnsEndsTheWhole) {
  const model::LoadedModel model = MadeModel(EditedConfig());
  const HeadEdits knockout = {ZeroHeadEdit(2, 0)};
  const std::vector<Condition> conditions = {{}, {&knockout, nullptr}};
  int asked = 0;
  const auto count = [&] { return ++asked, absl::OkStatus(); };
  ASSERT_TRUE(AnswerGreedily(model, EditedPrompt(20), conditions, {5, {}}, count).ok());
  // Two layers are carried, each condition goes through the other two; then four steps.
  EXPECT_EQ(asked, 2 + 2 * 2 + 4);
  for (int at = 1; at <= asked; ++at) {
    int now = 0;
    const auto stop = [&] { return ++now == at ? absl::CancelledError("stop") : absl::OkStatus(); };
    EXPECT_EQ(AnswerGreedily(model, EditedPrompt(20), conditions, {5, {}}, stop).status().code(),
              absl::StatusCode::kCancelled);
    EXPECT_EQ(now, at);
  }
}

TEST(AnswerGreedily, RefusesWhatDoesNotFitTheModel) {
  const model::LoadedModel model = MadeModel(EditedConfig());  // 512 positions
  const HeadEdits beyond = {ZeroHeadEdit(4, 0)};
  EditedLayers layers;
  layers[4] = model.weights.layers[0];
  const auto refusal = [&](const std::vector<int32_t>& ids, const Condition& condition, int64_t most) {
    const absl::Status status = AnswerGreedily(model, ids, {&condition, 1}, {most, {}}, GoOn).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(EditedPrompt(500), {}, 13), HasSubstr("500 tokens and an answer of 13"));
  EXPECT_THAT(refusal({}, {}, 5), HasSubstr("no tokens"));
  EXPECT_THAT(refusal({1, 90}, {}, 5), HasSubstr("token id 90 at position 1"));
  EXPECT_THAT(refusal({1}, {}, 0), HasSubstr("at most 0 tokens"));
  EXPECT_THAT(refusal({1}, {&beyond, nullptr}, 5), HasSubstr("condition 0, edit 0: L4H0"));
  EXPECT_THAT(refusal({1}, {nullptr, &layers}, 5), HasSubstr("condition 0: layers 4 to 4"));
}

TEST(AnswerGreedily, NamesTheConditionAndTokenWhoseLogitsAreNotFinite) {
  model::LoadedModel model = MadeModel(EditedConfig());
  model.weights.lm_head = model.weights.lm_head.clone();
  model.weights.lm_head[3][0] = INFINITY;
  const Condition plain;
  const absl::Status status = AnswerGreedily(model, EditedPrompt(9), {&plain, 1}, {3, {}}, GoOn).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("condition 0, token 1 of the answer"));
}

}  // namespace
}  // namespace ropelab::engine
