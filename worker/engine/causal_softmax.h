// Softmax over the keys that each row of a query block may see.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace ropelab::engine {

struct KeyWindow {
  int64_t first_row = 0;  // position of the block's first row
  int64_t first_key = 0;  // position of column 0
  int64_t window = 0;     // keys that a row sees, itself included; 0: all before it
  // Columns [first, end) of the block that row first_row + r sees.
  int64_t FirstColumn(int64_t r) const;
  int64_t EndColumn(int64_t r) const { return first_row + r + 1 - first_key; }
};

// logits [heads, rows, keys], fp32, contiguous: in place scale * logits -> probabilities; columns that a row
// does not see become 0. soft_cap c > 0: a scaled logit x becomes c tanh(x / c) first. False when a logit
// that a row sees is NaN or infinite (before the cap). Rows do not depend on each other.
bool CausalSoftmax(at::Tensor& logits, const KeyWindow& window, double scale, double soft_cap = 0);
// The same by tensor operators, for logits that the CPU cannot read; CausalSoftmax chooses it there.
bool CausalSoftmaxByOperators(at::Tensor& logits, const KeyWindow& window, double scale, double soft_cap = 0);

}  // namespace ropelab::engine
