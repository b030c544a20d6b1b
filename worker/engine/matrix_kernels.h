// Products of attention on the CPU over raw fp32 numbers: term after term in the order in which decoding adds
// them (row_kernels.h), so that a position has the same bits whether it is passed over or decoded. Compiled
// for several instruction sets as row_kernels.h is.
#pragma once

#include <cstdint>

namespace ropelab::engine {

// A matrix whose rows are `stride` numbers apart.
struct FloatRows {
  float* data;
  int64_t stride;
};
struct ConstFloatRows {
  const float* data;
  int64_t stride;
};

// out[r][j] = sum over k of a[r][k] * b[k][j] in ascending k, r in [0, rows), k in [0, depth), j in
// [0, columns), fp32: QueryTimesKeys of every row. A result's bits depend on its own terms alone.
void RowsTimesMatrix(ConstFloatRows a, int64_t rows, int64_t depth, ConstFloatRows b, int64_t columns,
                     FloatRows out);

// The same in blocks: k stands at position first + k; terms of kSumBlock positions are added up, then the
// blocks' sums, as WeightedValues does for one row. Weights that are zero move no bit where the values are
// finite.
void RowsTimesMatrixInBlocks(ConstFloatRows a, int64_t rows, int64_t depth, ConstFloatRows b, int64_t columns,
                             int64_t first, FloatRows out);

}  // namespace ropelab::engine
