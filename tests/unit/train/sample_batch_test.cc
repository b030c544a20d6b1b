#include "worker/train/sample_batch.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace ropelab::train {
namespace {

// One token of each role and two of an answer, the rest noise and filling.
TrainingSample HandWritten() {
  return {
      {0, 20, 21, 22, 23, 24, 25, 1},
      {Role::kNone, Role::kText, Role::kNone, Role::kNeedle, Role::kQuestion, Role::kAnswer, Role::kAnswer,
       Role::kNone},
  };
}

std::vector<int64_t> Row(const at::Tensor& tensor, int64_t row) {
  const at::Tensor values = tensor[row].to(at::kLong).contiguous();
  return {values.data_ptr<int64_t>(), values.data_ptr<int64_t>() + values.numel()};
}

using Integers = std::vector<int64_t>;

TEST(SampleBatchTest, ReadsEveryTokenButTheLastAndExpectsTheNext) {
  const SampleBatch batch = MakeBatch({HandWritten()});
  EXPECT_EQ(batch.ids.sizes(), (at::IntArrayRef{1, 7}));
  EXPECT_EQ(batch.ids.scalar_type(), at::kLong);
  EXPECT_EQ(Row(batch.ids, 0), (Integers{0, 20, 21, 22, 23, 24, 25}));
  EXPECT_EQ(batch.targets.scalar_type(), at::kLong);
  EXPECT_EQ(Row(batch.targets, 0), (Integers{20, 21, 22, 23, 24, 25, 1}));
}

// Where the target is text, needle or question; noise, filling and answers are not text.
TEST(SampleBatchTest, CountsTargetsByTheirOwnRole) {
  const SampleBatch batch = MakeBatch({HandWritten()});
  EXPECT_EQ(batch.text.scalar_type(), at::kFloat);
  EXPECT_EQ(Row(batch.text, 0), (Integers{1, 0, 1, 1, 0, 0, 0}));
  EXPECT_EQ(batch.answers.scalar_type(), at::kFloat);
  EXPECT_EQ(Row(batch.answers, 0), (Integers{0, 0, 0, 0, 1, 1, 0}));
}

// By the role of the token that is read, not of its target.
TEST(SampleBatchTest, MarksNeedlesAndWhatAsksForThemWhereTheyStand) {
  const SampleBatch batch = MakeBatch({HandWritten()});
  EXPECT_EQ(batch.needles.scalar_type(), at::kFloat);
  EXPECT_EQ(Row(batch.needles, 0), (Integers{0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(batch.asked.scalar_type(), at::kFloat);
  EXPECT_EQ(Row(batch.asked, 0), (Integers{0, 0, 0, 0, 1, 1, 1}));
}

TEST(SampleBatchTest, KeepsSamplesInRowsOfTheirOwn) {
  TrainingSample other = HandWritten();
  other.ids = {0, 30, 31, 32, 33, 34, 35, 36};
  other.roles.assign(8, Role::kText);
  const SampleBatch batch = MakeBatch({HandWritten(), other});
  EXPECT_EQ(Row(batch.ids, 0), (Integers{0, 20, 21, 22, 23, 24, 25}));
  EXPECT_EQ(Row(batch.targets, 1), (Integers{30, 31, 32, 33, 34, 35, 36}));
  EXPECT_EQ(Row(batch.text, 1), Integers(7, 1));
  EXPECT_EQ(Row(batch.answers, 1), Integers(7, 0));
}

TEST(SampleBatchTest, NeedsASample) {
  EXPECT_THROW(MakeBatch({}), std::out_of_range);
}

}  // namespace
}  // namespace ropelab::train
