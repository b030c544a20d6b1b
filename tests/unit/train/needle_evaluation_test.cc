#include "worker/train/needle_evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "tests/unit/train/trained_text.h"
#include "worker/train/adamw.h"
#include "worker/train/sample_batch.h"
#include "worker/train/training_samples.h"

namespace ropelab::train {
namespace {

constexpr int64_t kTokens = 64;
constexpr int64_t kLearned = 5;  // samples 0 to 4: one of each depth

// A model that learns five samples by heart, and what it writes when it is asked.
class NeedleEvaluationTest : public testing::Test {
 protected:
  NeedleEvaluationTest() : model_(Shape(), 600, 7, at::kFloat), optimizer_(Rule(), Tensors()) {}
  static void SetUpTestSuite() { text_ = new SampleText(TestTokenizer(600), 7, 0.5); }
  static void TearDownTestSuite() { delete text_; }

  static ModelShape Shape() {
    return {.hidden = 64, .layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 16, .intermediate = 128};
  }
  static AdamWRule Rule() { return {.weight_decay = 0}; }
  std::vector<at::Tensor> Tensors() const {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : model_.Parameters()) tensors.push_back(tensor);
    return tensors;
  }
  TrainingSample Sample(int64_t number) const {
    const double depth = kDepths[static_cast<size_t>(number) % std::size(kDepths)];
    const auto sample = EvaluationSample(*text_, recipe_, kTokens, depth, static_cast<uint64_t>(number));
    EXPECT_TRUE(sample.ok()) << sample.status();
    return *sample;
  }

  void Learn(int64_t steps) {
    std::vector<TrainingSample> samples;
    for (int64_t i = 0; i < kLearned; ++i) samples.push_back(Sample(i));
    const SampleBatch batch = MakeBatch(samples);
    for (int64_t i = 0; i < steps; ++i, ++done_) {
      const at::Tensor logs = at::log_softmax(model_.Run(batch.ids, {}).logits, -1);
      const at::Tensor right = logs.gather(-1, batch.targets.unsqueeze(-1)).squeeze(-1);
      (-(right * batch.answers).sum() / batch.answers.sum()).backward();
      optimizer_.Step(done_, 3e-3);
    }
  }

  // Greedy decoding, a token at a time from the prompt alone.
  bool Writes(int64_t number) const {
    const at::NoGradGuard no_gradients;
    const TrainingSample sample = Sample(number);
    const auto begin = std::find(sample.roles.begin(), sample.roles.end(), Role::kAnswer);
    auto at = static_cast<size_t>(begin - sample.roles.begin());
    std::vector<int64_t> ids(sample.ids.begin(), sample.ids.begin() + static_cast<int64_t>(at));
    for (; at < sample.ids.size() && sample.roles[at] == Role::kAnswer; ++at) {
      const at::Tensor logits = model_.Run(at::tensor(ids).unsqueeze(0), {}).logits;
      const auto next = logits[0][static_cast<int64_t>(ids.size()) - 1].argmax().item<int64_t>();
      if (next != sample.ids[at]) return false;
      ids.push_back(next);
    }
    return true;
  }
  int64_t Right(int64_t first, int64_t count, double depth = -1) const {
    const auto right = RightAnswers(model_, *text_, recipe_, kTokens, first, count, depth);
    EXPECT_TRUE(right.ok()) << right.status();
    return right.value_or(-1);
  }

  static const SampleText* text_;
  const Recipe recipe_;
  TrainableModel model_;
  AdamW optimizer_;
  int64_t done_ = 0;
};
const SampleText* NeedleEvaluationTest::text_ = nullptr;

TEST_F(NeedleEvaluationTest, CountsNothingForAModelThatKnowsNothing) {
  EXPECT_EQ(Right(0, 10), 0);
}

TEST_F(NeedleEvaluationTest, CountsEveryAnswerThatIsRightAndNoOther) {
  Learn(150);
  EXPECT_EQ(Right(0, kLearned), kLearned);
  EXPECT_EQ(Right(kLearned, 5), 0);
  EXPECT_EQ(Right(3, 4), 2);              // 3 and 4 were learned, 5 and 6 were not
  EXPECT_EQ(Right(1, 1, kDepths[1]), 1);  // as it stands in turn
}

TEST_F(NeedleEvaluationTest, CountsWhatGreedyDecodingWrites) {
  bool some = false;
  for (int i = 0; i < 20; ++i) {
    Learn(4);
    int64_t written = 0;
    for (int64_t number = 0; number < kLearned; ++number) written += Writes(number);
    EXPECT_EQ(Right(0, kLearned), written) << done_;
    some = some || (written > 0 && written < kLearned);
  }
  EXPECT_TRUE(some);  // half learned at one of these moments, or this compares ends alone
}

TEST_F(NeedleEvaluationTest, RefusesPromptsThatANeedleDoesNotFit) {
  const auto right = RightAnswers(model_, *text_, recipe_, 16, 0, 1);
  EXPECT_EQ(right.status().code(), absl::StatusCode::kInvalidArgument) << right.status();
}

}  // namespace
}  // namespace ropelab::train
