// Sub-diagonal sums against plain double loops over attention that another implementation computed.
#include "worker/engine/slash_sums.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ropelab::engine {
namespace {

// A causal matrix with entries that no sum can confuse.
at::Tensor Probabilities(int64_t heads, int64_t n) {
  at::Tensor p = at::zeros({heads, n, n});
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j)
        p[h][i][j] = static_cast<float>(((h * 31 + i * 17 + j * 7) % 101) / 128.0);
    }
  }
  return p;
}

std::vector<double> ByLoops(const at::Tensor& p, const SlashRange& range) {
  const auto a = p.accessor<float, 3>();
  std::vector<double> sums;
  for (int64_t h = 0; h < p.size(0); ++h) {
    for (int64_t offset = range.first_offset; offset <= range.last_offset; ++offset) {
      double sum = 0;
      for (int64_t i = offset; i < p.size(1); ++i) {
        if (i - offset < range.skip_first) continue;
        if (range.common_rows && i < range.last_offset + range.skip_first) continue;
        sum += a[h][i][i - offset];
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

std::vector<double> InBlocks(const at::Tensor& p, const SlashRange& range, int64_t rows, int64_t window,
                             void (SlashSums::*add)(const ProbabilityBlock&) = &SlashSums::Add) {
  SlashSums sums(p.size(0), range);
  const int64_t n = p.size(1);
  for (int64_t first = 0, block = 0; first < n; first += rows, ++block) {
    const int64_t height = std::min(rows, n - first);
    const int64_t key = std::max<int64_t>(0, window > 0 ? first + 1 - window : 0);
    const at::Tensor cut = p.narrow(1, first, height).narrow(2, key, first + height - key).contiguous();
    (sums.*add)({0, block % kStrips, 0, first, key, cut});
  }
  return sums.Take();
}

// All values are multiples of 1/128 and small, so every order of summing gives the same number.
TEST(SlashSums, EqualALoopForEveryRangeAndBlock) {
  const at::Tensor p = Probabilities(2, 50);
  for (const SlashRange range :
       {SlashRange{0, 49, 0, false}, SlashRange{0, 4, 4, false}, SlashRange{7, 30, 4, false},
        SlashRange{7, 30, 4, true}, SlashRange{45, 45, 4, true}, SlashRange{0, 0, 0, true}}) {
    for (int64_t rows : {1, 7, 64}) {
      EXPECT_EQ(InBlocks(p, range, rows, 0), ByLoops(p, range)) << rows;
      EXPECT_EQ(InBlocks(p, range, rows, 0, &SlashSums::AddByOperators), ByLoops(p, range)) << rows;
    }
  }
}

TEST(SlashSums, EqualALoopWhenAWindowCutsKeysOff) {
  const at::Tensor p = Probabilities(2, 50) * at::ones({50, 50}).triu(-9);
  const SlashRange range{2, 20, 4, false};
  EXPECT_EQ(InBlocks(p, range, 7, 10), ByLoops(p, range));
  EXPECT_EQ(InBlocks(p, range, 7, 10, &SlashSums::AddByOperators), ByLoops(p, range));
}

TEST(SlashSums, StartAnewAfterTake) {
  const at::Tensor p = Probabilities(1, 8);
  SlashSums sums(1, {0, 3, 0, false});
  sums.Add({0, 0, 0, 0, 0, p});
  const std::vector<double> first = sums.Take();
  sums.Add({0, 0, 0, 0, 0, p});
  EXPECT_EQ(sums.Take(), first);
}

}  // namespace
}  // namespace ropelab::engine
