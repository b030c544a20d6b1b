#include "worker/engine/matrix_kernels.h"

#include <algorithm>
#include <cstring>

#include "worker/engine/row_kernels.h"
#include "worker/engine/vector_clones.h"

namespace ropelab::engine {
namespace {

// A panel of b, copied together so that it stays in the first cache for all rows.
constexpr int kPanelColumns = 64, kPanelDepth = kSumBlock;

struct Panel {
  alignas(64) float numbers[kPanelDepth][kPanelColumns];
  int depth, columns;
  bool
      block;  // its sum is taken by itself and then added to `out`; else its terms are added to `out` in turn
};

void CopyPanel(const float* b, int64_t stride, Panel& panel) {
  for (int k = 0; k < panel.depth; ++k)
    std::memcpy(panel.numbers[k], b + k * stride, static_cast<size_t>(panel.columns) * sizeof(float));
}

// R rows times C vectors of the panel from `column` on, added to what `out` holds.
template <typename Vector, int R, int C>
ROPELAB_INLINE void AddTile(const float* a, int64_t stride, const Panel& panel, int column, float* out,
                            int64_t out_stride) {
  constexpr int kWidth = sizeof(Vector) / sizeof(float);
  Vector sums[R][C] = {};
  if (!panel.block) {
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) Load(out + r * out_stride + c * kWidth, sums[r][c]);
    }
  }
  for (int k = 0; k < panel.depth; ++k) {
    Vector b[C];
    for (int c = 0; c < C; ++c) Load(&panel.numbers[k][column + c * kWidth], b[c]);
    for (int r = 0; r < R; ++r) {
      const float factor = a[r * stride + k];
      for (int c = 0; c < C; ++c) sums[r][c] += factor * b[c];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      float* to = out + r * out_stride + c * kWidth;
      if (panel.block) {
        Vector before;
        Load(to, before);
        sums[r][c] += before;
      }
      Store(sums[r][c], to);
    }
  }
}

template <typename Vector, int R, int C>
ROPELAB_INLINE void AddColumns(ConstFloatRows a, int64_t rows, const Panel& panel, int column,
                               FloatRows out) {
  int64_t r = 0;
  for (; r + R <= rows; r += R)
    AddTile<Vector, R, C>(a.data + r * a.stride, a.stride, panel, column, out.data + r * out.stride + column,
                          out.stride);
  for (; r < rows; ++r)
    AddTile<Vector, 1, C>(a.data + r * a.stride, a.stride, panel, column, out.data + r * out.stride + column,
                          out.stride);
}

// All columns of the panel: four, two and one vector wide, the rest number by number.
template <typename Vector, int R>
ROPELAB_INLINE void AddWholePanel(ConstFloatRows a, int64_t rows, const Panel& panel, FloatRows out) {
  constexpr int kWidth = sizeof(Vector) / sizeof(float);
  int column = 0;
  for (; column + 4 * kWidth <= panel.columns; column += 4 * kWidth)
    AddColumns<Vector, R, 4>(a, rows, panel, column, out);
  for (; column + 2 * kWidth <= panel.columns; column += 2 * kWidth)
    AddColumns<Vector, 2 * R, 2>(a, rows, panel, column, out);
  for (; column + kWidth <= panel.columns; column += kWidth)
    AddColumns<Vector, 2 * R, 1>(a, rows, panel, column, out);
  if constexpr (kWidth > 4) {
    for (; column + 4 <= panel.columns; column += 4)
      AddColumns<Vector4, 2 * R, 1>(a, rows, panel, column, out);
  }
  for (; column < panel.columns; ++column) AddColumns<float, 2 * R, 1>(a, rows, panel, column, out);
}

// Tiles as large as the registers of each instruction set hold: their size moves no bit.
#if ROPELAB_HAS_CLONES
__attribute__((target("default"))) void AddPanel(ConstFloatRows a, int64_t rows, const Panel& panel,
                                                 FloatRows out) {
  AddWholePanel<Vector4, 2>(a, rows, panel, out);
}
__attribute__((target("arch=x86-64-v3"))) void AddPanel(ConstFloatRows a, int64_t rows, const Panel& panel,
                                                        FloatRows out) {
  AddWholePanel<Vector8, 2>(a, rows, panel, out);
}
__attribute__((target("arch=x86-64-v4"))) void AddPanel(ConstFloatRows a, int64_t rows, const Panel& panel,
                                                        FloatRows out) {
  AddWholePanel<Vector16, 4>(a, rows, panel, out);
}
#else
void AddPanel(ConstFloatRows a, int64_t rows, const Panel& panel, FloatRows out) {
  AddWholePanel<Vector4, 2>(a, rows, panel, out);
}
#endif

// `ahead`: of how many positions the first block is short.
void Multiply(ConstFloatRows a, int64_t rows, int64_t depth, ConstFloatRows b, int64_t columns, bool blocks,
              int64_t ahead, FloatRows out) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(out.data + r * out.stride, columns, 0.0f);
  Panel panel;
  panel.block = blocks;
  for (int64_t k = 0; k < depth; k += panel.depth, ahead = 0) {
    panel.depth = static_cast<int>(std::min<int64_t>(kPanelDepth - ahead, depth - k));
    for (int64_t j = 0; j < columns; j += kPanelColumns) {
      panel.columns = static_cast<int>(std::min<int64_t>(kPanelColumns, columns - j));
      CopyPanel(b.data + k * b.stride + j, b.stride, panel);
      AddPanel({a.data + k, a.stride}, rows, panel, {out.data + j, out.stride});
    }
  }
}

}  // namespace

void RowsTimesMatrix(ConstFloatRows a, int64_t rows, int64_t depth, ConstFloatRows b, int64_t columns,
                     FloatRows out) {
  Multiply(a, rows, depth, b, columns, /*blocks=*/false, /*ahead=*/0, out);
}

void RowsTimesMatrixInBlocks(ConstFloatRows a, int64_t rows, int64_t depth, ConstFloatRows b, int64_t columns,
                             int64_t first, FloatRows out) {
  Multiply(a, rows, depth, b, columns, /*blocks=*/true, first % kSumBlock, out);
}

}  // namespace ropelab::engine
