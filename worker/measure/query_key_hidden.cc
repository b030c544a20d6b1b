#include "worker/measure/query_key_hidden.h"

#include <algorithm>
#include <limits>

#include "worker/engine/decoder.h"
#include "worker/engine/layer_steps.h"
#include "worker/engine/spectrum.h"
#include "worker/measure/weight_one_thread.h"

namespace ropelab::measure {
namespace {

// Mean of the rows, [d] double, in row order.
at::Tensor CentreOf(const at::Tensor& hidden) {
  at::Tensor sum = at::zeros({hidden.size(1)}, at::kDouble);
  double* sums = sum.data_ptr<double>();
  for (int64_t row = 0; row < hidden.size(0); ++row) {
    const at::Tensor wide = hidden[row].to(at::kDouble).contiguous();
    const double* x = wide.data_ptr<double>();
    for (int64_t i = 0; i < hidden.size(1); ++i) sums[i] += x[i];
  }
  return sum.div_(static_cast<double>(hidden.size(0)));
}

at::Tensor CentredPiece(const at::Tensor& hidden, const at::Tensor& centre, int64_t first, int64_t rows) {
  return hidden.narrow(0, first, rows).to(at::kDouble).sub_(centre);
}

// From eigenvectors u of the N x N matrix, [N, columns], those of the d x d covariance, [d, columns]: v = X'u
// at length 1, its largest coordinate in magnitude (the first of a tie) positive.
at::Tensor DirectionsOf(const at::Tensor& u, const at::Tensor& hidden, const at::Tensor& centre) {
  at::Tensor v = at::zeros({hidden.size(1), u.size(1)}, at::kDouble);
  for (int64_t first = 0; first < hidden.size(0); first += engine::GramSum::kPieceRows) {
    const int64_t rows = std::min(engine::GramSum::kPieceRows, hidden.size(0) - first);
    v.addmm_(CentredPiece(hidden, centre, first, rows).t(), u.narrow(0, first, rows));
  }
  const at::Tensor sign = v.gather(0, v.abs().argmax(0, /*keepdim=*/true)).sign();
  return v.mul_(sign / at::linalg_vector_norm(v, 2, 0, /*keepdim=*/true));
}

at::Tensor PrincipalView(const at::Tensor& hidden, int64_t rows, int64_t columns) {
  const at::Tensor centre = CentreOf(hidden);
  const engine::Eigen eigen = engine::EigenOf(engine::SmallerGram(hidden, centre), /*vectors=*/true);
  const double* energy = eigen.values.data_ptr<double>();
  const int64_t n = eigen.values.size(0);
  const double least = energy[0] * static_cast<double>(n) * std::numeric_limits<double>::epsilon();
  int64_t found = 0;
  while (found < std::min(columns, n) && energy[found] > least) ++found;
  const at::Tensor view = at::zeros({rows, columns}, at::kFloat);
  if (found == 0) return view;
  at::Tensor directions = eigen.vectors.narrow(1, 0, found);
  EachOnOneThread(1, [&](int64_t) {
    if (hidden.size(1) > hidden.size(0)) directions = DirectionsOf(directions, hidden, centre);
  });
  constexpr int64_t kPiece = engine::GramSum::kPieceRows;
  EachOnOneThread((rows + kPiece - 1) / kPiece, [&](int64_t piece) {
    const int64_t first = piece * kPiece, count = std::min(kPiece, rows - first);
    view.narrow(0, first, count)
        .narrow(1, 0, found)
        .copy_(at::mm(CentredPiece(hidden, centre, first, count), directions));
  });
  return view;
}

}  // namespace

at::Tensor HiddenAt(v1::HiddenStage::Value stage, int64_t layer, const at::Tensor& residual,
                    const model::LoadedModel& model) {
  const at::Tensor hidden = at::empty(residual.sizes(), residual.scalar_type());
  if (stage == v1::HiddenStage::RESIDUAL) return hidden.copy_(residual);
  const int64_t tokens = residual.size(0);
  const auto fill = [&](int64_t chunk) {
    const int64_t first = chunk * engine::kRowChunk, rows = std::min(engine::kRowChunk, tokens - first);
    hidden.narrow(0, first, rows)
        .copy_(engine::AttentionInput(residual.narrow(0, first, rows), model.weights.layers[layer],
                                      model.config));
  };
  const int64_t chunks = (tokens + engine::kRowChunk - 1) / engine::kRowChunk;
  if (model.device.is_cpu()) {
    EachOnOneThread(chunks, fill);
  } else {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) fill(chunk);
  }
  return hidden;
}

at::Tensor ViewOfHidden(const at::Tensor& hidden, int64_t rows, int64_t columns, v1::HiddenView::Value view) {
  const at::NoGradGuard no_gradients;
  const int64_t shown = std::min(columns, hidden.size(1));
  if (view == v1::HiddenView::PCA) return PrincipalView(hidden, rows, shown);
  return hidden.narrow(0, 0, rows).narrow(1, 0, shown).to(at::kFloat).contiguous();
}

int64_t HiddenViewBytes(int64_t tokens, int64_t hidden_size, int64_t rows, int64_t columns,
                        v1::HiddenView::Value view) {
  const int64_t wide = sizeof(double), n = std::min(tokens, hidden_size);
  const int64_t shown = std::min(columns, hidden_size),
                kept = rows * shown * static_cast<int64_t>(sizeof(float));
  if (view != v1::HiddenView::PCA) return kept;
  // The Gram matrix; LAPACK's copy and its workspace of twice that; then vectors in order, and joined.
  const int64_t eigen = 6 * n * n * wide;
  const int64_t directions = 4 * hidden_size * shown * wide;
  const int64_t pieces =
      2 * at::get_num_threads() * engine::GramSum::kPieceRows * (hidden_size + shown) * wide;
  return kept + eigen + directions + pieces + 3 * hidden_size * wide;
}

}  // namespace ropelab::measure
