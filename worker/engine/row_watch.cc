#include "worker/engine/row_watch.h"

#include <algorithm>

namespace ropelab::engine {

void RowWatch::Probabilities(const ProbabilityBlock& block) {
  const at::Tensor& probabilities = block.probabilities;
  const int64_t end_row = block.first_row + probabilities.size(1), keys = probabilities.size(2);
  auto row = std::lower_bound(rows_.begin(), rows_.end(), block.first_row);
  for (; row != rows_.end() && *row < end_row; ++row) {
    // [heads, keys], a view where the CPU can read it.
    const at::Tensor heads = probabilities.select(1, *row - block.first_row).to(at::kCPU);
    const float* const first = heads.data_ptr<float>();
    const auto seen = static_cast<size_t>(std::min(keys, *row - block.first_key + 1));
    for (int64_t h = 0; h < heads.size(0); ++h) {
      read_({block.layer,
             block.first_head + h,
             static_cast<size_t>(row - rows_.begin()),
             block.first_key,
             {first + h * heads.stride(0), seen}});
    }
  }
}

}  // namespace ropelab::engine
