#include "worker/engine/row_products.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "worker/engine/activation_kernels.h"
#include "worker/engine/dot_kernels.h"
#include "worker/engine/row_kernels.h"

namespace ropelab::engine {
namespace {

// Below this many multiplications, and this many elements, a second thread costs more than it brings.
constexpr int64_t kProductsPerThread = 1 << 17, kElementsPerThread = 1 << 15;

int64_t Grain(int64_t per_thread, int64_t each) {
  return std::max<int64_t>(1, per_thread / std::max<int64_t>(1, each));
}

template <typename Work>
void ForEachRow(at::Tensor& x, const Work& work) {
  const int64_t n = x.size(1);
  float* rows = x.data_ptr<float>();
  at::parallel_for(0, x.size(0), Grain(kElementsPerThread, n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) work(rows + row * n, n);
  });
}

}  // namespace

at::Tensor RowProducts(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor rows = x.contiguous(), matrix = weight.contiguous();
  const int64_t count = rows.size(0), depth = rows.size(1), columns = matrix.size(0);
  TORCH_CHECK(matrix.size(1) == depth, "rows of ", depth, " numbers times columns of ", matrix.size(1));
  at::Tensor products = at::empty({count, columns}, rows.options());
  const float* from = rows.data_ptr<float>();
  const float* weights = matrix.data_ptr<float>();
  float* to = products.data_ptr<float>();
  at::parallel_for(0, columns, Grain(kProductsPerThread, count * depth), [&](int64_t begin, int64_t end) {
    RowsTimesColumns(from, count, depth, weights + begin * depth, end - begin, to + begin, columns);
  });
  return bias.defined() ? products.add_(bias) : products;
}

void ActivateRows(at::Tensor& x, formats::Activation activation) {
  ForEachRow(x, [&](float* row, int64_t n) {
    switch (activation) {
      case formats::Activation::kGelu: {
        at::Tensor whole = at::from_blob(row, {n}, at::kFloat);
        whole.copy_(at::gelu(whole, "none"));
        return;
      }
      case formats::Activation::kGeluTanh:
        return GeluTanhRow(row, n);
      case formats::Activation::kSilu:
        return SiluRow(row, n);
    }
  });
}

void CapRows(at::Tensor& x, double cap) {
  ForEachRow(x, [&](float* row, int64_t n) { SoftCapRow(row, n, 1.0f, static_cast<float>(cap)); });
}

}  // namespace ropelab::engine
