#include "worker/train/training_samples.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/train/trained_text.h"

namespace ropelab::train {
namespace {

class TrainingSamplesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { text_ = new SampleText(TestTokenizer(600), 7, 0.5); }
  static void TearDownTestSuite() { delete text_; }

  static std::string Decoded(const TokenIds& ids) { return text_->tokenizer().Decode(ids, true).value(); }
  static std::vector<TokenIds> Answers(const TrainingSample& sample) {
    std::vector<TokenIds> answers;
    for (size_t i = 0; i < sample.ids.size(); ++i) {
      if (sample.roles[i] != Role::kAnswer) continue;
      if (i == 0 || sample.roles[i - 1] != Role::kAnswer) answers.emplace_back();
      answers.back().push_back(sample.ids[i]);
    }
    return answers;
  }
  static const SampleText* text_;
};
const SampleText* TrainingSamplesTest::text_ = nullptr;

// EXPERIMENTS.md section 6: the words to the last character, the needle between words at ⌊depth words⌋.
TEST_F(TrainingSamplesTest, AskInTheExperimentsWords) {
  Recipe recipe;
  for (const double depth : {0.1, 0.5, 0.9}) {
    const auto sample = EvaluationSample(*text_, recipe, 200, depth, 3);
    ASSERT_TRUE(sample.ok()) << sample.status();
    ASSERT_EQ(sample->ids.size(), 200u);
    const auto answers = Answers(*sample);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].back(), kEndId);
    const std::string code = Decoded(answers[0]).substr(1);
    EXPECT_EQ(code.size(), 5u);
    EXPECT_EQ(code.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), std::string::npos) << code;
    const std::string prompt = Decoded(sample->ids);
    const std::string needle = " The secret passphrase is " + code + ". ";
    const std::string question = "\n\nWhat is the secret passphrase?\n\nAnswer: " + code;
    ASSERT_NE(prompt.find(needle), std::string::npos) << prompt;
    EXPECT_EQ(prompt.substr(prompt.size() - question.size()), question);
    const auto words = [&](const std::string& part) { return std::count(part.begin(), part.end(), ' '); };
    const std::string before = prompt.substr(0, prompt.find(needle));
    const auto all = words(prompt.substr(0, prompt.size() - question.size())) - 5 + 1;
    EXPECT_EQ(words(before) + 1, static_cast<int64_t>(depth * static_cast<double>(all)));
  }
}

TEST_F(TrainingSamplesTest, HaveTheIdsOfTheirWholeText) {
  Recipe recipe;
  recipe.mix.spans = 0;
  for (uint64_t number = 0; number < 20; ++number) {
    const auto sample = DrawSample(*text_, recipe, 180, 5, number);
    ASSERT_TRUE(sample.ok()) << sample.status();
    ASSERT_EQ(sample->ids.size(), 180u);
    // Up to the first answer: what follows it is an end token.
    const auto answer = std::find(sample->roles.begin(), sample->roles.end(), Role::kAnswer);
    ASSERT_NE(answer, sample->roles.end());
    const TokenIds prompt(sample->ids.begin(), sample->ids.begin() + (answer - sample->roles.begin()));
    EXPECT_EQ(text_->tokenizer().Encode(Decoded(prompt), true)->ids, prompt) << Decoded(prompt);
  }
}

TEST_F(TrainingSamplesTest, RepeatASpanThreeTimes) {
  Recipe recipe;
  recipe.mix.spans = 1;
  for (uint64_t number = 0; number < 20; ++number) {
    const auto sample = DrawSample(*text_, recipe, 128, 1, number);
    ASSERT_TRUE(sample.ok()) << sample.status();
    ASSERT_EQ(sample->ids.size(), 128u);
    auto answers = Answers(*sample);
    // Neighbours touch when nothing stands between them but the two tokens that are no answers.
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(answers[0], answers[1]);
    const auto times = [&](const TokenIds& part) {
      int count = 0;
      for (auto at = sample->ids.begin();; ++at, ++count) {
        at = std::search(at, sample->ids.end(), part.begin(), part.end());
        if (at == sample->ids.end()) return count;
      }
    };
    EXPECT_GE(times(answers[0]), 3);
  }
}

TEST_F(TrainingSamplesTest, FollowFromStepAndNumberAlone) {
  const Recipe recipe;
  EXPECT_EQ(DrawSample(*text_, recipe, 100, 9, 4)->ids, DrawSample(*text_, recipe, 100, 9, 4)->ids);
  EXPECT_NE(DrawSample(*text_, recipe, 100, 9, 4)->ids, DrawSample(*text_, recipe, 100, 9, 5)->ids);
  EXPECT_NE(DrawSample(*text_, recipe, 100, 9, 4)->ids, DrawSample(*text_, recipe, 100, 10, 4)->ids);
}

TEST_F(TrainingSamplesTest, RefuseANeedleThatDoesNotFit) {
  const auto sample = EvaluationSample(*text_, Recipe(), 20, 0.5, 0);
  EXPECT_EQ(sample.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(sample.status().message().find("more than the prompt's 20"), std::string::npos)
      << sample.status();
}

}  // namespace
}  // namespace ropelab::train
