#include "server/statistics/uniform_attention.h"

#include <algorithm>

namespace ropelab::statistics {

UniformAttention::UniformAttention(int64_t tokens, int64_t window)
    : suffix_(static_cast<size_t>(std::max<int64_t>(tokens, 0)) + 1, 0.0) {
  for (int64_t i = tokens - 1; i >= 0; --i) {
    const int64_t seen = window > 0 ? std::min(i + 1, window) : i + 1;
    suffix_[static_cast<size_t>(i)] = suffix_[static_cast<size_t>(i) + 1] + 1.0 / static_cast<double>(seen);
  }
}

double UniformAttention::SumFrom(int64_t first_row) const {
  const int64_t last = static_cast<int64_t>(suffix_.size()) - 1;
  return suffix_[static_cast<size_t>(std::clamp<int64_t>(first_row, 0, last))];
}

}  // namespace ropelab::statistics
