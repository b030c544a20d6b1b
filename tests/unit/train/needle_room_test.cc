#include "worker/train/needle_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/train/trained_text.h"
#include "worker/train/step_draws.h"
#include "worker/train/training_samples.h"

namespace ropelab::train {
namespace {

TEST(NeedleRoomTest, KnowsTheShortestPromptOfAStep) {
  for (const int64_t first : {64, 65, 85, 100, 256}) {
    Recipe recipe;
    recipe.curriculum.lengths = {first};
    int64_t shortest = first;
    for (int64_t step = 0; step < 2000; ++step) shortest = std::min(shortest, StepLength(recipe, step, 0));
    EXPECT_EQ(ShortestSample(first), std::min(shortest + 1, first)) << first;
  }
}

// By hand: without merges a byte is a token, so " The secret passphrase is K3Q9Z." takes 32, its question
// with "Answer:" 41 and " K3Q9Z" 6; begin and end stand around them.
TEST(NeedleRoomTest, CountsEveryByteWhereNothingIsMerged) {
  const SampleText text(TestTokenizer(kFixedTokens), 7, 0.5);
  const auto largest = LargestNeedle(text);
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_EQ(*largest, 1 + 32 + 41 + 6 + 1);
}

TEST(NeedleRoomTest, ASampleFitsJustIntoIt) {
  const SampleText text(TestTokenizer(400), 7, 0.5);
  const auto largest = LargestNeedle(text);
  ASSERT_TRUE(largest.ok()) << largest.status();
  int refused = 0;
  for (uint64_t number = 0; number < 300; ++number) {
    EXPECT_TRUE(EvaluationSample(text, Recipe(), *largest, 0.5, number).ok()) << number;
    refused += EvaluationSample(text, Recipe(), *largest - 1, 0.5, number).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
}

TEST(NeedleRoomTest, NamesTheFirstLengthThatHasRoom) {
  const SampleText text(TestTokenizer(kFixedTokens), 7, 0.5);
  Recipe recipe;
  recipe.vocabulary = kFixedTokens;
  recipe.curriculum.lengths = {100, 200};
  const absl::Status status = CheckNeedlesFit(text, recipe);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), testing::HasSubstr("curriculum.lengths: prompts of 100 tokens"));
  EXPECT_THAT(status.message(), testing::HasSubstr("room for 77 tokens"));
  EXPECT_THAT(status.message(), testing::HasSubstr("takes up to 81; let the lengths begin with 105 or more"));
  recipe.curriculum.lengths = {105};
  EXPECT_TRUE(CheckNeedlesFit(text, recipe).ok());
}

}  // namespace
}  // namespace ropelab::train
