// Products of a few rows with a matrix on the CPU, over raw fp32 numbers. BLAS adds in another order for one
// row than for eight; here every result is a sum of its own in a fixed order, so a row's bits depend on no
// other row and not on how many there are. Compiled for several instruction sets as row_kernels.h is.
#pragma once

#include <cstdint>

namespace ropelab::engine {

// out[r * stride + c] = sum over k of x[r * depth + k] * weights[c * depth + k], r in [0, rows), c in
// [0, columns): running sums of k modulo 16 in ascending k for 512 k at a time, these added up, then halved
// pairwise, all in fp32.
void RowsTimesColumns(const float* x, int64_t rows, int64_t depth, const float* weights, int64_t columns,
                      float* out, int64_t stride);

}  // namespace ropelab::engine
