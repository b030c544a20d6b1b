#include "worker/engine/spectrum.h"

#include <ATen/Parallel.h>

#include <limits>
#include <vector>

namespace ropelab::engine {
namespace {

Eigen EigenOfOne(const at::Tensor& gram, bool vectors) {
  if (!vectors) return {at::linalg_eigvalsh(gram).flip(0).clamp_min(0), {}};
  auto [values, columns] = at::linalg_eigh(gram);
  columns = columns.flip(1);
  const at::Tensor largest = columns.abs().argmax(0, /*keepdim=*/true);
  const at::Tensor sign = columns.gather(0, largest).sign();
  return {values.flip(0).clamp_min(0), columns * sign};
}

}  // namespace

Eigen EigenOf(const at::Tensor& gram, bool vectors) {
  const at::NoGradGuard no_gradients;
  const int64_t n = gram.size(-1);
  const at::Tensor flat = gram.reshape({-1, n, n});
  std::vector<at::Tensor> values(static_cast<size_t>(flat.size(0))), columns(values.size());
  // Inside a parallel region LAPACK keeps to the calling thread.
  at::parallel_for(0, flat.size(0), 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_gradients_here;
    for (int64_t i = begin; i < end; ++i) {
      const Eigen one = EigenOfOne(flat[i], vectors);
      values[i] = one.values;
      columns[i] = one.vectors;
    }
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
  double total = 0;
  for (int64_t m = n; m-- > 0;) total += s[m];
  if (!(total > 0)) return {std::numeric_limits<double>::quiet_NaN(), 0};
  double sum = 0;
  for (int64_t m = 0; m < n; ++m) {
    sum += s[m];
    if (sum / total >= energy) return {s[0] / total, m + 1};
  }
  return {s[0] / total, n};
}

void GramSum::Add(const at::Tensor& rows) {
  const at::Tensor wide = rows.to(at::kCPU, at::kDouble);
  const at::Tensor product = at::matmul(wide.transpose(-1, -2), wide);
  sum_ = sum_.defined() ? sum_.add_(product) : product;
}

}  // namespace ropelab::engine
