// Answers to needles under conditions: what is said of them, and that they are the engine's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/engine/counted_memory.h"
#include "tests/unit/measure/condition_request.h"
#include "tests/unit/measure/list_recorder.h"
#include "tests/unit/measure/needle_request.h"
#include "tests/unit/measure/text_fakes.h"
#include "worker/engine/generation.h"
#include "worker/measure/condition_edits.h"
#include "worker/measure/needle_prompts.h"

namespace ropelab::measure {
namespace {

using engine::MadeModel;
using testing::HasSubstr;

template <typename Edit>
void Name(Edit& edit, const std::vector<std::pair<int, int>>& heads, v1::EditPositions::Value positions) {
  for (const auto& [layer, head] : heads) {
    v1::Head& named = *edit.mutable_heads()->mutable_list()->add_head();
    named.set_layer(layer);
    named.set_head(head);
  }
  edit.set_positions(positions);
}

v1::Intervention ZeroHead(const std::vector<std::pair<int, int>>& heads,
                          v1::EditPositions::Value positions = v1::EditPositions::ALL) {
  v1::Intervention intervention;
  Name(*intervention.mutable_zero_head(), heads, positions);
  return intervention;
}

v1::Intervention ZeroDims(const std::vector<std::pair<int, int>>& heads, std::initializer_list<int> dims,
                          v1::EditPositions::Value positions = v1::EditPositions::ALL) {
  v1::Intervention intervention;
  v1::ZeroDims& edit = *intervention.mutable_zero_dims();
  Name(edit, heads, positions);
  for (const int dim : dims) edit.add_dims(dim);
  edit.set_target(v1::Target::QUERY);
  edit.set_stage(v1::EditStage::PRE_ROPE);
  return intervention;
}

v1::Measurement Request(const v1::PromptBlock& block, const std::vector<v1::Condition>& conditions,
                        int64_t answer_tokens = 6) {
  v1::Measurement measurement;
  v1::ConditionOutcomes& request = *measurement.mutable_condition_outcomes();
  *request.mutable_prompts() = block;
  for (const v1::Condition& condition : conditions) *request.add_conditions() = condition;
  request.set_answer_tokens(answer_tokens);
  return measurement;
}

std::vector<v1::Condition> ManyConditions() {
  return {ConditionOf({}),
          ConditionOf({ZeroHead({{0, 1}, {1, 2}})}),
          ConditionOf({LowRank({{0, 0}}, 1, {v1::Matrix::QUERY})}),
          ConditionOf({ZeroDims({{1, 0}, {1, 3}}, {0, 6, 7}, v1::EditPositions::QUESTION)}),
          ConditionOf({LowRank({{1, 1}}, 2, {v1::Matrix::KEY}), ZeroHead({{1, 0}})}),
          ConditionOf({ZeroHead({{0, 0}, {0, 1}, {0, 2}, {0, 3}}, v1::EditPositions::QUESTION)})};
}

using Answers = std::map<std::pair<int64_t, int64_t>, v1::NeedleAnswer>;

class ConditionAnswers : public testing::Test {
 protected:
  Answers AnswersOf(const v1::Measurement& request) {
    ListRecorder recorder;
    const auto outcome = Measure(request, {&model_, tokenizer_.get()}, {}, recorder);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(recorder.done, recorder.total);
    Answers answers;
    std::pair<int64_t, int64_t> before{-1, -1};
    for (const v1::Reading& reading : recorder.readings) {
      const v1::NeedleAnswer& answer = reading.needle_answer();
      EXPECT_LT(before, std::pair(answer.sample(), answer.condition()));
      before = {answer.sample(), answer.condition()};
      answers[before] = answer;
    }
    return answers;
  }
  std::string Refusal(const v1::Measurement& request) {
    ListRecorder recorder;
    const absl::Status status = Measure(request, {&model_, tokenizer_.get()}, {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(recorder.readings.empty());
    return std::string(status.message());
  }
  // Whatever it reads, it says this byte.
  void AlwaysSay(char byte) {
    for (model::LayerWeights& layer : model_.weights.layers) {
      layer.output.zero_();
      layer.down.zero_();
    }
    model_.weights.embedding.fill_(1);
    model_.weights.final_norm.fill_(1);
    model_.weights.lm_head.zero_();
    model_.weights.lm_head[static_cast<unsigned char>(byte)].fill_(1);
  }

  model::LoadedModel model_ = MadeModel(ByteConfig());
  const std::shared_ptr<const formats::Tokenizer> tokenizer_ = ByteTokenizer();
};

TEST_F(ConditionAnswers, AreTheEnginesConditionByCondition) {
  const v1::PromptBlock block = NeedleBlock(2);
  const auto conditions = ManyConditions();
  const Answers answers = AnswersOf(Request(block, conditions));
  ASSERT_EQ(answers.size(), 12u);
  const auto needles = RealiseNeedles(block.needle(), block.samples(), {&model_, tokenizer_.get()});
  ASSERT_TRUE(needles.ok()) << needles.status();
  int different = 0;
  for (const auto& [place, answer] : answers) {
    const RealisedNeedle& needle = needles->at(static_cast<size_t>(place.first - 8));
    EXPECT_EQ(answer.tokens(), needle.facts.tokens());
    const auto edits = ReadInterventions(conditions[static_cast<size_t>(place.second)].interventions(),
                                         "here", model_.config, needle.facts.question());
    ASSERT_TRUE(edits.ok()) << edits.status();
    const engine::EditedLayers layers = MakeEditedLayers(model_, edits->ranks);
    const std::vector<engine::Condition> alone = {{&edits->heads, &layers}};
    const auto expected = engine::AnswerGreedily(
        model_, needle.ids, alone, {.most_tokens = 6, .stop_ids = {}}, [] { return absl::OkStatus(); });
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_THAT(answer.ids().ids(), testing::ElementsAreArray(expected->at(0))) << place.second;
    EXPECT_EQ(answer.ids().ids_size(), 6);
    const Answers one = AnswersOf(Request(block, {conditions[static_cast<size_t>(place.second)]}));
    EXPECT_EQ(one.at({place.first, 0}).generated(), answer.generated());
    different += answer.generated() != answers.at({place.first, 0}).generated();
  }
  EXPECT_GT(different, 3);
}

TEST_F(ConditionAnswers, AreCorrectWhereTheyHoldTheCodeUpperAndLowerCaseToldApart) {
  AlwaysSay('A');
  const auto of = [&](const std::string& alphabet, int64_t code_length, int64_t tokens) {
    return AnswersOf(Request(NeedleBlock(1, 200, alphabet, code_length), {ConditionOf({})}, tokens))
        .at({8, 0});
  };
  const v1::NeedleAnswer right = of("A", 5, 20);
  EXPECT_TRUE(right.correct());
  EXPECT_EQ(right.generated(), std::string(20, 'A'));
  EXPECT_TRUE(of("A", 5, 5).correct());
  EXPECT_FALSE(of("a", 5, 20).correct());
  EXPECT_FALSE(of("B", 1, 20).correct());
}

TEST_F(ConditionAnswers, EndAtAnEosTokenWhichBelongsToThem) {
  AlwaysSay('A');
  model_.config.eos_token_ids = {7, 'A'};
  const v1::NeedleAnswer answer =
      AnswersOf(Request(NeedleBlock(1, 200, "A", 1), {ConditionOf({})}, 20)).at({8, 0});
  EXPECT_THAT(answer.ids().ids(), testing::ElementsAre('A'));
}

TEST_F(ConditionAnswers, RefuseWhatCannotBeAnswered) {
  const v1::Condition plain = ConditionOf({});
  EXPECT_THAT(Refusal(Request(NeedleBlock(1), {})), HasSubstr("conditions is empty"));
  EXPECT_THAT(Refusal(Request(NeedleBlock(1), {plain}, 0)), HasSubstr("answer_tokens is 0"));
  EXPECT_THAT(Refusal(Request(NeedleBlock(2, 40), {plain})),
              testing::AllOf(HasSubstr("sample 8 (context length 40, depth 0, index 0)"),
                             HasSubstr("needle and question alone are 72 tokens")));
  EXPECT_THAT(Refusal(Request(NeedleBlock(1, 512), {plain}, 40)), HasSubstr("sample 8"));  // no room for 40
  EXPECT_THAT(Refusal(Request(NeedleBlock(1), {plain, ConditionOf({ZeroHead({{2, 0}})})})),
              HasSubstr("conditions[1].interventions[0]"));
  EXPECT_THAT(Refusal(Request(NeedleBlock(1, 200, "AB", 7), {plain})),
              HasSubstr("is 7 tokens of this model, and an answer has at most 6"));
  v1::Intervention late = ZeroHead({{0, 0}});
  late.mutable_zero_head()->clear_positions();
  late.mutable_zero_head()->mutable_position_range()->set_first(200);
  late.mutable_zero_head()->mutable_position_range()->set_last(210);
  EXPECT_THAT(Refusal(Request(NeedleBlock(1), {plain, ConditionOf({late})})),
              HasSubstr("sample 8: an edit begins at position 200, and the prompt has 1"));
  EXPECT_THAT(Refusal(ConditionRequest({{1, 2, 3}}, {plain, ConditionOf({late})})),
              HasSubstr("sample 0: an edit begins at position 200, and the prompt has 3 tokens"));
  v1::Measurement text = ConditionRequest({{1, 2, 3}}, {plain});
  text.mutable_condition_outcomes()->set_answer_tokens(20);
  EXPECT_THAT(Refusal(text), HasSubstr("only needles are answered"));
  EXPECT_THAT(Refusal(ConditionRequest(
                  {{1, 2, 3}}, {plain, ConditionOf({ZeroHead({{1, 0}}, v1::EditPositions::QUESTION)})})),
              HasSubstr("conditions[1].interventions[0]"));  // plain text has no question
}

TEST_F(ConditionAnswers, StayUnderWhatIsSaid) {
  formats::ModelConfig wide = ByteConfig();
  wide.hidden_size = 450;
  for (const formats::ModelConfig& config : {ByteConfig(), wide}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      model_ = MadeModel(config, dtype);
      for (const v1::Measurement& request : {Request(NeedleBlock(1, 300), {ConditionOf({})}),
                                             Request(NeedleBlock(2, 300), ManyConditions())}) {
        const engine::CountedMemory counted;
        const int64_t peak = engine::CountedMemory::Peak([&] { AnswersOf(request); });
        EXPECT_LE(peak, *ActivationBytes(request, model_)) << dtype << " " << config.hidden_size;
      }
    }
  }
}

TEST_F(ConditionAnswers, StopAtOnceWhenTheLeaseIsGone) {
  ListRecorder recorder;
  recorder.cancel_at_call = 2;
  EXPECT_EQ(Measure(Request(NeedleBlock(2), ManyConditions()), {&model_, tokenizer_.get()}, {}, recorder)
                .status()
                .code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(recorder.calls, 2);
  EXPECT_TRUE(recorder.readings.empty());
}

}  // namespace
}  // namespace ropelab::measure
