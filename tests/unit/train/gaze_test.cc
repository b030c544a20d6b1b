#include "worker/train/gaze.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "worker/train/streams.h"

namespace ropelab::train {
namespace {

SampleBatch Batch(std::vector<float> needles, std::vector<float> asked) {
  const auto tokens = static_cast<int64_t>(needles.size());
  SampleBatch batch;
  batch.ids = at::zeros({1, tokens}, at::kLong);
  batch.needles = at::tensor(needles).view({1, tokens});
  batch.asked = at::tensor(asked).view({1, tokens});
  return batch;
}

std::vector<int64_t> Watched(const Gaze& gaze, int64_t begin, int64_t end) {
  std::vector<int64_t> rows;
  for (int64_t i = begin; i < end; ++i) {
    if (gaze.weights[0][i].item<float>() > 0) rows.push_back(gaze.rows[0][i].item<int64_t>());
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(GazeTest, WatchesRowsAfterTheNeedleThatDoNotContinueIt) {
  Philox stream = MakeStream(1, Stream::kGaze, 0);
  std::vector<float> needles(30, 0), asked(30, 0);
  needles[2] = needles[3] = asked[25] = asked[26] = 1;
  const Gaze gaze = DrawGaze(Batch(needles, asked), stream);
  EXPECT_EQ(Watched(gaze, 0, 32), (std::vector<int64_t>{25, 26}));
  EXPECT_EQ(Watched(gaze, 32, 64), (std::vector<int64_t>{7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
                                                         18, 19, 20, 21, 22, 23, 24, 27, 28, 29}));
  EXPECT_EQ(gaze.needles.sum().item<double>(), 2 + 3);
  EXPECT_NEAR(gaze.weights.sum().item<double>(), 2, 1e-6);
  EXPECT_NEAR(gaze.weights[0][0].item<double>(), 0.5, 1e-6);
}

TEST(GazeTest, WatchesNothingWithoutANeedle) {
  Philox stream = MakeStream(1, Stream::kGaze, 0);
  const Gaze gaze = DrawGaze(Batch(std::vector<float>(10, 0), std::vector<float>(10, 1)), stream);
  EXPECT_EQ(gaze.weights.sum().item<double>(), 0);
}

// Zero queries attend alike to keys 0..8 of row 8 and 0..9 of row 9. Keys 2..7 are the needles and what is
// right behind them: beside the first key they have 6/9 of 8/9, and 6/10 of 9/10.
TEST(GazeTest, TakesTheShareThatLiesOnNeedles) {
  Philox stream = MakeStream(1, Stream::kGaze, 0);
  const Gaze gaze = DrawGaze(Batch({0, 0, 1, 1, 0, 0, 0, 1, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 1, 1}), stream);
  const at::Tensor query = at::zeros({1, 2, 3, 10, 4}), key = at::ones({1, 2, 10, 4});
  const double row8 = 6.0 / 9 / (8.0 / 9 + 0.01), row9 = 6.0 / 10 / (9.0 / 10 + 0.01);
  const double all = StrayGaze(query, key, gaze, at::zeros({6})).item<double>();
  EXPECT_NEAR(all, (row8 + row9) / 2, 1e-6);
  at::Tensor free = at::zeros({6});
  free[1] = 1;
  EXPECT_NEAR(StrayGaze(query, key, gaze, free).item<double>(), all * 5 / 6, 1e-6);
}

}  // namespace
}  // namespace ropelab::train
