// The products' loops against double and against each other, bit for bit where their contracts say so.
#include <gtest/gtest.h>

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
const std::vector<Size> kSizes = {{1, 1, 1},   {3, 15, 2},   {4, 16, 4},     {5, 17, 5},   {8, 64, 63},
                                  {9, 96, 65}, {17, 97, 71}, {70, 200, 131}, {3, 5000, 9}, {16, 0, 3}};

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
        const double roundings = static_cast<double>(s.depth / 16 + 5) * std::ldexp(1, -24);
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
  for (const Size& s : kSizes) {
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

// Logits and outputs of a block of rows, as decoding computes them one row at a time.
TEST(RowsTimesMatrix, HasTheBitsOfDecoding) {
  for (const Size& s : kSizes) {
    const int64_t a_stride = s.depth + 2, b_stride = s.columns + 1, out_stride = s.columns + 3;
    const std::vector<float> a = Waves(s.rows * a_stride, 0.7), b = Waves(s.depth * b_stride, 1.3);
    std::vector<float> packed;  // b without gaps, as values are
    for (int64_t k = 0; k < s.depth; ++k)
      packed.insert(packed.end(), b.begin() + k * b_stride, b.begin() + k * b_stride + s.columns);
    std::vector<float> out(static_cast<size_t>(s.rows * out_stride), kUntouched);
    RowsTimesMatrix({a.data(), a_stride}, s.rows, s.depth, {b.data(), b_stride}, s.columns,
                    {out.data(), out_stride});
    std::vector<float> logits(static_cast<size_t>(s.columns)), output(static_cast<size_t>(s.columns));
    for (int64_t r = 0; r < s.rows; ++r) {
      const float* row = a.data() + r * a_stride;
      QueryTimesKeys(row, b.data(), s.depth, b_stride, s.columns, logits.data());
      WeightsTimesValues(row, packed.data(), s.columns, s.depth, output.data());
      for (int64_t c = 0; c < out_stride; ++c) {
        const float got = out[r * out_stride + c];
        if (c >= s.columns) {
          EXPECT_EQ(got, kUntouched);
          continue;
        }
        ASSERT_EQ(got, logits[c]) << s.rows << " " << s.depth << " " << r << " " << c;
        ASSERT_EQ(got, output[c]) << s.rows << " " << s.depth << " " << r << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace ropelab::engine
