#include "worker/engine/spectrum.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"

namespace ropelab::engine {
namespace {

// Columns of X that one thread takes against as many others.
constexpr int64_t kGramTile = 256;

// Inside a parallel region BLAS and LAPACK keep to the calling thread; a single item would be run outside of
// one, hence at least two.
void EachOnOneThread(int64_t items, absl::FunctionRef<void(int64_t item)> work) {
  at::parallel_for(0, std::max<int64_t>(items, 2), 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_gradients;
    for (int64_t item = begin; item < std::min(end, items); ++item) work(item);
  });
}

Eigen EigenOfOne(const at::Tensor& gram, bool vectors) {
  if (!vectors) return {at::linalg_eigvalsh(gram).flip(0).clamp_min(0), {}};
  auto [values, columns] = at::linalg_eigh(gram);
  columns = columns.flip(1);
  const at::Tensor largest = columns.abs().argmax(0, /*keepdim=*/true);
  const at::Tensor sign = columns.gather(0, largest).sign();
  return {values.flip(0).clamp_min(0), columns.mul_(sign)};
}

struct Tile {
  int64_t row, column, rows, columns;
};
// The upper half of [n, n].
std::vector<Tile> TilesOf(int64_t n) {
  std::vector<Tile> tiles;
  for (int64_t row = 0; row < n; row += kGramTile) {
    for (int64_t column = row; column < n; column += kGramTile) {
      tiles.push_back({row, column, std::min(kGramTile, n - row), std::min(kGramTile, n - column)});
    }
  }
  return tiles;
}

}  // namespace

Eigen EigenOf(const at::Tensor& gram, bool vectors) {
  const at::NoGradGuard no_gradients;
  const int64_t n = gram.size(-1);
  const at::Tensor flat = gram.reshape({-1, n, n});
  std::vector<at::Tensor> values(static_cast<size_t>(flat.size(0))), columns(values.size());
  EachOnOneThread(flat.size(0), [&](int64_t i) {
    const Eigen one = EigenOfOne(flat[i], vectors);
    values[i] = one.values;
    columns[i] = one.vectors;
  });
  std::vector<int64_t> shape(gram.sizes().begin(), gram.sizes().end() - 1);
  Eigen joined{at::stack(values).reshape(shape), {}};
  if (vectors) joined.vectors = at::stack(columns).reshape(gram.sizes());
  return joined;
}

Spectrum SpectrumOf(const at::Tensor& values, double energy) {
  const at::Tensor flat = values.contiguous();
  const double* s = flat.data_ptr<double>();
  const int64_t n = flat.numel();
  // In the order of the sums below, so that they reach all of it at the last value that is not 0.
  double total = 0;
  for (int64_t m = 0; m < n; ++m) total += s[m];
  if (!(total > 0)) return {std::numeric_limits<double>::quiet_NaN(), 0};
  double sum = 0;
  int64_t rank = 0;
  while (rank < n && (rank == 0 || sum / total < energy)) sum += s[rank++];
  return {s[0] / total, rank};
}

void GramSum::Add(const at::Tensor& rows) {
  const at::NoGradGuard no_gradients;
  const at::Tensor wide = rows.to(at::kCPU, at::kDouble);
  const int64_t n = wide.size(-1);
  if (!sum_.defined()) {
    std::vector<int64_t> shape(wide.sizes().begin(), wide.sizes().end());
    shape[shape.size() - 2] = n;
    sum_ = at::zeros(shape, at::kDouble);
  }
  const at::Tensor flat = wide.reshape({-1, wide.size(-2), n});
  const at::Tensor sums = sum_.view({-1, n, n});
  const std::vector<Tile> tiles = TilesOf(n);
  const int64_t per_matrix = static_cast<int64_t>(tiles.size());
  EachOnOneThread(flat.size(0) * per_matrix, [&](int64_t item) {
    const Tile& tile = tiles[static_cast<size_t>(item % per_matrix)];
    const at::Tensor x = flat[item / per_matrix], sum = sums[item / per_matrix];
    at::Tensor part = sum.narrow(0, tile.row, tile.rows).narrow(1, tile.column, tile.columns);
    part.addmm_(x.narrow(1, tile.row, tile.rows).t(), x.narrow(1, tile.column, tile.columns));
    if (tile.row == tile.column) return;
    sum.narrow(0, tile.column, tile.columns).narrow(1, tile.row, tile.rows).copy_(part.t());
  });
}

at::Tensor SmallerGram(const at::Tensor& x, const at::Tensor& centre) {
  const at::NoGradGuard no_gradients;
  const bool tall = x.size(1) <= x.size(0);
  const int64_t summed = x.size(tall ? 0 : 1);
  GramSum gram;
  for (int64_t first = 0; first < summed; first += GramSum::kPieceRows) {
    const int64_t count = std::min(GramSum::kPieceRows, summed - first);
    const at::Tensor piece = x.narrow(tall ? 0 : 1, first, count);
    if (!centre.defined()) {
      gram.Add(tall ? piece : piece.t());
      continue;
    }
    const at::Tensor wide =
        piece.to(at::kCPU, at::kDouble) - (tall ? centre : centre.narrow(0, first, count));
    gram.Add(tall ? wide : wide.t());
  }
  return gram.sum();
}

}  // namespace ropelab::engine
