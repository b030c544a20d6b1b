#include "worker/engine/dot_kernels.h"

#include <algorithm>

#include "worker/engine/vector_clones.h"

namespace ropelab::engine {
namespace {

constexpr int kDotLanes = 16;  // running sums of one result; fixed, as its order must not follow the vector

constexpr int64_t kDotBlock = 512;  // numbers whose running sums are added to those of the blocks before

struct Product {
  const float* x;
  int64_t rows, depth;
  const float* weights;
  int64_t columns;
  float* out;
  int64_t stride;
};

// sums[r][c] += x[r] * weights[c], of one vector's width. Where the processor fuses the two, every tile must:
// a product that the compiler can take out of a loop is rounded by itself in one tile and not in another, so
// none may stay the same from one round of a loop to the next, or it is added to zero.
template <typename Vector, int R, int C>
ROPELAB_INLINE void AddProducts(const float* x, int64_t x_stride, const float* weights, int64_t weight_stride,
                                Vector (&sums)[R][C]) {
  Vector columns[C];
  for (int c = 0; c < C; ++c) Load(weights + c * weight_stride, columns[c]);
  for (int r = 0; r < R; ++r) {
    Vector row;
    Load(x + r * x_stride, row);
    for (int c = 0; c < C; ++c) sums[r][c] += row * columns[c];
  }
}

// The last n < kDotLanes numbers of N rows, zeros after them.
template <int N>
ROPELAB_INLINE void CopyRest(const float* rows, int64_t stride, int64_t n, float (&rest)[N][kDotLanes]) {
  for (int j = 0; j < N; ++j) {
    for (int64_t i = 0; i < n; ++i) rest[j][i] = rows[j * stride + i];
  }
}

// Of one result's lanes: i and i + 8 added, then i and i + 4.
ROPELAB_INLINE void AddToFour(const float* lanes, Vector4& sums) {
  Vector4 part[4];
  for (int i = 0; i < 4; ++i) Load(lanes + 4 * i, part[i]);
  sums = (part[0] + part[2]) + (part[1] + part[3]);
}

// The sums of C results' lanes, from AddToFour on (0 + 2) + (1 + 3); of four results side by side.
template <int C>
ROPELAB_INLINE void SumLanes(const float (&lanes)[C][kDotLanes], float* out) {
  Vector4 four[C];
  for (int c = 0; c < C; ++c) AddToFour(lanes[c], four[c]);
  int c = 0;
  for (; c + 4 <= C; c += 4) {
    const Vector4 a = __builtin_shufflevector(four[c], four[c + 1], 0, 1, 4, 5) +
                      __builtin_shufflevector(four[c], four[c + 1], 2, 3, 6, 7);
    const Vector4 b = __builtin_shufflevector(four[c + 2], four[c + 3], 0, 1, 4, 5) +
                      __builtin_shufflevector(four[c + 2], four[c + 3], 2, 3, 6, 7);
    const Vector4 sums =
        __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
    Store(sums, out + c);
  }
  for (; c < C; ++c) out[c] = (four[c][0] + four[c][2]) + (four[c][1] + four[c][3]);
}

// `first`: there is nothing yet to add to.
template <typename Vector, int R, int C>
ROPELAB_INLINE void AddLanes(const Vector (&sums)[R][C], bool first, int lane,
                             float (&lanes)[R][C][kDotLanes]) {
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      Vector all = {};
      if (!first) Load(&lanes[r][c][lane], all);
      all += sums[r][c];
      Store(all, &lanes[r][c][lane]);
    }
  }
}

// R x C results; a vector narrower than the lanes passes over the rows once for each share of them.
template <typename Vector, int R, int C>
ROPELAB_INLINE void Tile(const float* x, const float* weights, int64_t depth, float* out, int64_t stride) {
  constexpr int kWidth = sizeof(Vector) / sizeof(float);
  const int64_t whole = depth - depth % kDotLanes;
  float lanes[R][C][kDotLanes], x_rest[R][kDotLanes] = {}, weight_rest[C][kDotLanes] = {};
  CopyRest(x + whole, depth, depth - whole, x_rest);
  CopyRest(weights + whole, depth, depth - whole, weight_rest);
  for (int lane = 0; lane < kDotLanes; lane += kWidth) {
    for (int64_t first = 0; first == 0 || first < whole; first += kDotBlock) {
      const int64_t end = std::min(whole, first + kDotBlock);
      Vector sums[R][C] = {};
      for (int64_t k = first + lane; k < end; k += kDotLanes)
        AddProducts(x + k, depth, weights + k, depth, sums);
      AddLanes(sums, first == 0, lane, lanes);
    }
    if (whole == depth) continue;
    Vector sums[R][C] = {};
    AddProducts(&x_rest[0][lane], kDotLanes, &weight_rest[0][lane], kDotLanes, sums);
    AddLanes(sums, false, lane, lanes);
  }
  for (int r = 0; r < R; ++r) SumLanes(lanes[r], out + r * stride);
}

template <typename Vector, int R, int C>
ROPELAB_INLINE void RowsOfTiles(const Product& p, int64_t column) {
  const float* weights = p.weights + column * p.depth;
  int64_t r = 0;
  for (; r + R <= p.rows; r += R)
    Tile<Vector, R, C>(p.x + r * p.depth, weights, p.depth, p.out + r * p.stride + column, p.stride);
  for (; r < p.rows; ++r)
    Tile<Vector, 1, C>(p.x + r * p.depth, weights, p.depth, p.out + r * p.stride + column, p.stride);
}

template <typename Vector, int R, int C>
ROPELAB_INLINE void Tiles(const Product& p) {
  int64_t column = 0;
  for (; column + C <= p.columns; column += C) RowsOfTiles<Vector, R, C>(p, column);
  for (; column < p.columns; ++column) RowsOfTiles<Vector, R, 1>(p, column);
}

// Tiles as large as the registers of each instruction set hold: their size moves no bit.
#if ROPELAB_HAS_CLONES
__attribute__((target("default"))) void Multiply(const Product& product) {
  Tiles<Vector4, 4, 2>(product);
}
__attribute__((target("arch=x86-64-v3"))) void Multiply(const Product& product) {
  Tiles<Vector8, 4, 2>(product);
}
__attribute__((target("arch=x86-64-v4"))) void Multiply(const Product& product) {
  Tiles<Vector16, 4, 4>(product);
}
#else
void Multiply(const Product& product) {
  Tiles<Vector4, 4, 2>(product);
}
#endif

}  // namespace

void RowsTimesColumns(const float* x, int64_t rows, int64_t depth, const float* weights, int64_t columns,
                      float* out, int64_t stride) {
  // Blocks of rows and columns that stay in the second cache together.
  const int64_t block = std::clamp<int64_t>((1 << 16) / std::max<int64_t>(1, depth) / 4 * 4, 8, 64);
  for (int64_t c = 0; c < columns; c += block) {
    for (int64_t r = 0; r < rows; r += block) {
      Multiply({x + r * depth, std::min(block, rows - r), depth, weights + c * depth,
                std::min(block, columns - c), out + r * stride + c, stride});
    }
  }
}

}  // namespace ropelab::engine
