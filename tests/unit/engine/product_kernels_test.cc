// The products' loops against double and against each other, bit for bit where their contracts say so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "worker/engine/dot_kernels.h"
#include "worker/engine/matrix_kernels.h"
#include "worker/engine/row_kernels.h"

namespace ropelab::engine {
namespace {

constexpr float kUntouched = 77;

std::vector<float> Waves(int64_t n, double turn) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < n; ++i)
    numbers.push_back(static_cast<float>(std::sin(turn * static_cast<double>(i + 1)) * (1 + i % 7)));
  return numbers;
}

struct Size {
  int64_t rows, depth, columns;
};
// Around every tile: 1, 4 and 8 rows, 16 lanes, 1 to 64 columns, and above the blocks of both kernels.
const std::vector<Size> kSizes = {{1, 1, 1},    {3, 15, 2},  {4, 16, 4},   {5, 17, 5},
                                  {8, 64, 63},  {9, 96, 65}, {17, 97, 71}, {70, 200, 131},
                                  {3, 5000, 9}, {16, 0, 3},  {2, 515, 3},  {5, 1024, 4}};

TEST(RowsTimesColumns, IsWithinTheRoundingsOfItsAdditions) {
  for (const Size& s : kSizes) {
    const int64_t stride = s.columns + 3;
    const std::vector<float> x = Waves(s.rows * s.depth, 0.7), weights = Waves(s.columns * s.depth, 1.3);
    std::vector<float> out(static_cast<size_t>(s.rows * stride), kUntouched);
    RowsTimesColumns(x.data(), s.rows, s.depth, weights.data(), s.columns, out.data(), stride);
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t c = 0; c < stride; ++c) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; c < s.columns && k < s.depth; ++k) {
          const double term = static_cast<double>(x[r * s.depth + k]) * weights[c * s.depth + k];
          sum += term, magnitude += std::abs(term);
        }
        const double roundings = static_cast<double>(37 + s.depth / 512) * std::ldexp(1, -24);
        const float got = out[r * stride + c];
        if (c >= s.columns) {
          EXPECT_EQ(got, kUntouched);
        } else {
          EXPECT_LE(std::abs(got - sum), roundings * magnitude)
              << s.rows << " " << s.depth << " " << r << " " << c;
        }
      }
    }
  }
}

TEST(RowsTimesColumns, ARowAndAColumnAloneHaveTheSameBits) {
  std::vector<Size> sizes = kSizes;
  for (int64_t depth = 1; depth < 100; ++depth) sizes.push_back({5, depth, 5});
  for (int64_t depth = 500; depth < 540; ++depth) sizes.push_back({9, depth, 7});
  for (const Size& s : sizes) {
    const std::vector<float> x = Waves(s.rows * s.depth, 0.7), weights = Waves(s.columns * s.depth, 1.3);
    std::vector<float> out(static_cast<size_t>(s.rows * s.columns));
    RowsTimesColumns(x.data(), s.rows, s.depth, weights.data(), s.columns, out.data(), s.columns);
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t c = 0; c < s.columns; ++c) {
        float alone = kUntouched;
        RowsTimesColumns(x.data() + r * s.depth, 1, s.depth, weights.data() + c * s.depth, 1, &alone, 1);
        ASSERT_EQ(alone, out[r * s.columns + c]) << s.rows << " " << s.depth << " " << r << " " << c;
      }
    }
  }
}

// Logits of a block of rows and their outputs, as decoding computes them one row at a time.
TEST(RowsTimesMatrix, HasTheBitsOfDecoding) {
  for (const Size& s : kSizes) {
    const int64_t a_stride = s.depth + 2, b_stride = s.columns + 1, out_stride = s.columns + 3;
    const std::vector<float> a = Waves(s.rows * a_stride, 0.7), b = Waves(s.depth * b_stride, 1.3);
    std::vector<float> packed;  // b without gaps, as values are
    for (int64_t k = 0; k < s.depth; ++k)
      packed.insert(packed.end(), b.begin() + k * b_stride, b.begin() + k * b_stride + s.columns);
    for (const int64_t first : {0, 1, 63, 64, 100}) {
      const auto product = [&](const auto& multiply) {
        std::vector<float> out(static_cast<size_t>(s.rows * out_stride), kUntouched);
        multiply(ConstFloatRows{a.data(), a_stride}, ConstFloatRows{b.data(), b_stride},
                 FloatRows{out.data(), out_stride});
        for (int64_t r = 0; r < s.rows; ++r) {
          for (int64_t c = s.columns; c < out_stride; ++c) EXPECT_EQ(out[r * out_stride + c], kUntouched);
        }
        return out;
      };
      const std::vector<float> in_turn =
          product([&](auto x, auto y, auto out) { RowsTimesMatrix(x, s.rows, s.depth, y, s.columns, out); });
      const std::vector<float> in_blocks = product([&](auto x, auto y, auto out) {
        RowsTimesMatrixInBlocks(x, s.rows, s.depth, y, s.columns, first, out);
      });
      std::vector<float> logits(static_cast<size_t>(s.columns));
      for (int64_t r = 0; r < s.rows; ++r) {
        const float* row = a.data() + r * a_stride;
        QueryTimesKeys(row, b.data(), s.depth, b_stride, s.columns, logits.data());
        std::vector<float> output(static_cast<size_t>(s.columns)), block(output.size());
        WeightedValues sum(s.columns, block.data(), output.data());
        const int64_t half = s.depth / 2;  // as what a prompt left and what came after it
        sum.Add(row, packed.data(), half, first);
        sum.Add(row + half, packed.data() + half * s.columns, s.depth - half, first + half);
        sum.Finish();
        for (int64_t c = 0; c < s.columns; ++c) {
          ASSERT_EQ(in_turn[r * out_stride + c], logits[c])
              << s.rows << " " << s.depth << " " << r << " " << c;
          ASSERT_EQ(in_blocks[r * out_stride + c], output[c])
              << s.rows << " " << s.depth << " " << first << " " << r << " " << c;
        }
      }
    }
  }
}

TEST(RowsTimesMatrixInBlocks, ZerosBeforeAndAfterARowsTermsMoveNoBit) {
  const int64_t depth = 300, before = 70, after = 41;
  std::vector<float> row = Waves(depth, 0.7);
  const std::vector<float> values = Waves(depth * 5, 1.3);
  std::fill_n(row.begin(), before, 0.0f);
  std::fill_n(row.end() - after, after, 0.0f);
  std::vector<float> whole(5), part(5);
  RowsTimesMatrixInBlocks({row.data(), depth}, 1, depth, {values.data(), 5}, 5, 20, {whole.data(), 5});
  RowsTimesMatrixInBlocks({row.data() + before, depth}, 1, depth - before - after,
                          {values.data() + before * 5, 5}, 5, 20 + before, {part.data(), 5});
  EXPECT_EQ(whole, part);
}

// Against double: the error of a sum of n terms stays that of 64 and of n / 64.
TEST(RowsTimesMatrixInBlocks, KeepsLongSumsExact) {
  const int64_t depth = 100000;
  const std::vector<float> row = Waves(depth, 0.7), values = Waves(depth, 1.3);
  double exact = 0, magnitude = 0;
  for (int64_t k = 0; k < depth; ++k) {
    exact += static_cast<double>(row[k]) * values[k];
    magnitude += std::abs(static_cast<double>(row[k]) * values[k]);
  }
  float blocks = 0, turns = 0;
  RowsTimesMatrixInBlocks({row.data(), depth}, 1, depth, {values.data(), 1}, 1, 0, {&blocks, 1});
  RowsTimesMatrix({row.data(), depth}, 1, depth, {values.data(), 1}, 1, {&turns, 1});
  EXPECT_LE(std::abs(blocks - exact), 1e-8 * magnitude);
  EXPECT_LE(std::abs(turns - exact), 1e-6 * magnitude);
}

}  // namespace
}  // namespace ropelab::engine
