#include "worker/measure/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropelab::measure {
namespace {

formats::ModelConfig Config() {
  formats::ModelConfig config;
  config.vocabulary = 512;
  config.max_positions = 100;
  return config;
}

v1::PromptBlock Uniform(int64_t first, int64_t count, int64_t tokens) {
  v1::PromptBlock block;
  block.mutable_samples()->set_first_sample(first);
  block.mutable_samples()->set_count(count);
  block.mutable_uniform()->set_seed(42);
  block.mutable_uniform()->set_tokens(tokens);
  block.mutable_uniform()->set_vocabulary(512);
  return block;
}

// [(int(x) * 512) >> 64 for x in numpy.random.Philox(key=[42, 1], counter=[0, 0, s, 0]).random_raw(5)], s =
// 0, 3
TEST(RealizePrompts, DrawsTheIdsThatNumpyDraws) {
  const auto prompts = RealizePrompts(Uniform(0, 4, 5), Config());
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_THAT((*prompts)[0], testing::ElementsAre(227, 417, 260, 198, 12));
  EXPECT_THAT((*prompts)[3], testing::ElementsAre(289, 131, 285, 410, 444));
}

TEST(RealizePrompts, ASampleDoesNotDependOnItsBlock) {
  EXPECT_EQ((*RealizePrompts(Uniform(8, 8, 50), Config()))[2],
            (*RealizePrompts(Uniform(8, 3, 50), Config()))[2]);
}

TEST(RealizePrompts, BosComesFirstAndTakesNothingFromTheStream) {
  v1::PromptBlock block = Uniform(0, 1, 6);
  block.mutable_uniform()->set_bos_token_id(1);
  const auto prompts = RealizePrompts(block, Config());
  ASSERT_TRUE(prompts.ok());
  EXPECT_THAT((*prompts)[0], testing::ElementsAre(1, 227, 417, 260, 198, 12));
}

TEST(RealizePrompts, ExcludedIdsAreSteppedOver) {
  v1::PromptBlock block = Uniform(0, 1, 99);
  block.mutable_uniform()->set_vocabulary(6);
  for (int32_t id : {0, 2, 5}) block.mutable_uniform()->add_excluded_ids(id);
  const auto prompts = RealizePrompts(block, Config());
  ASSERT_TRUE(prompts.ok());
  EXPECT_THAT((*prompts)[0], testing::Each(testing::AnyOf(1, 3, 4)));
  // [[1, 3, 4][(int(x) * 3) >> 64] for x in ...random_raw(5)]
  EXPECT_THAT(TokenIds((*prompts)[0].begin(), (*prompts)[0].begin() + 5),
              testing::ElementsAre(3, 4, 3, 3, 1));
}

TEST(RealizePrompts, RefusesWhatCannotBe) {
  const auto message = [](const v1::PromptBlock& block) {
    return std::string(RealizePrompts(block, Config()).status().message());
  };
  EXPECT_THAT(message(Uniform(3, 1, 5)), testing::HasSubstr("aligned block"));
  EXPECT_THAT(message(Uniform(0, 9, 5)), testing::HasSubstr("1 to 8"));
  EXPECT_THAT(message(Uniform(0, 1, 101)), testing::HasSubstr("1 to 100"));
  v1::PromptBlock wide = Uniform(0, 1, 5);
  wide.mutable_uniform()->set_vocabulary(513);
  EXPECT_THAT(message(wide), testing::HasSubstr("512 rows"));
  v1::PromptBlock given;
  given.mutable_samples()->set_first_sample(8);
  given.mutable_samples()->set_count(1);
  given.mutable_given()->add_prompts()->mutable_ids()->Add(600);
  EXPECT_THAT(message(given), testing::HasSubstr("sample 8: token id 600 at position 0"));
  given.mutable_given()->add_prompts();
  EXPECT_THAT(message(given), testing::HasSubstr("1 samples but 2 given"));
  given.clear_source();
  EXPECT_FALSE(RealizePrompts(given, Config()).ok());
}

// hashlib.sha256(numpy.array([2, 1, 300, 1, 7], dtype='<i4').tobytes()).hexdigest()
TEST(FedIdsDigest, IsTheHashOfLengthsAndIds) {
  EXPECT_EQ(FedIdsDigest({{1, 300}, {7}}),
            "39111a2ac275ffabdb095bd9037123f781f80580d7a4d56586abb4911a2d6fd5");
}

}  // namespace
}  // namespace ropelab::measure
