#include "worker/engine/causal_softmax.h"

#include <algorithm>
#include <limits>

#include "worker/engine/row_kernels.h"

namespace ropelab::engine {
namespace {

bool OnCpu(at::Tensor& logits, const KeyWindow& window, double scale, double soft_cap) {
  const int64_t rows = logits.size(1), keys = logits.size(2);
  float* row = logits.data_ptr<float>();
  bool finite = true;
  for (int64_t head = 0; head < logits.size(0); ++head) {
    for (int64_t r = 0; r < rows; ++r, row += keys) {
      const int64_t first = window.FirstColumn(r), end = window.EndColumn(r);
      std::fill(row, row + first, 0.0f);
      finite &= CappedSoftmaxRow(row + first, end - first, scale, soft_cap);
      std::fill(row + end, row + keys, 0.0f);
    }
  }
  return finite;
}

}  // namespace

int64_t KeyWindow::FirstColumn(int64_t r) const {
  return window > 0 ? std::max<int64_t>(0, first_row + r + 1 - window - first_key) : 0;
}

bool CausalSoftmaxByOperators(at::Tensor& logits, const KeyWindow& window, double scale, double soft_cap) {
  const int64_t rows = logits.size(1), keys = logits.size(2);
  const at::Tensor row = at::arange(rows, logits.options().dtype(at::kLong)).unsqueeze(1) + window.first_row;
  const at::Tensor key = at::arange(keys, logits.options().dtype(at::kLong)).unsqueeze(0) + window.first_key;
  at::Tensor hidden = key > row;
  if (window.window > 0) hidden = hidden.logical_or(key <= row - window.window);
  logits.mul_(scale);
  at::Tensor broken;  // 0, or NaN where the cap would hide an infinite logit
  if (soft_cap > 0) {
    broken = (logits - logits).masked_fill_(hidden, 0.0).sum();
    logits.div_(soft_cap).tanh_().mul_(soft_cap);
  }
  logits.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  logits.copy_(at::softmax(logits, -1));
  const at::Tensor sum = logits.sum();
  return at::isfinite(broken.defined() ? sum + broken : sum).item<bool>();
}

bool CausalSoftmax(at::Tensor& logits, const KeyWindow& window, double scale, double soft_cap) {
  return logits.is_cpu() ? OnCpu(logits, window, scale, soft_cap)
                         : CausalSoftmaxByOperators(logits, window, scale, soft_cap);
}

}  // namespace ropelab::engine
