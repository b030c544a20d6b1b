// Work of which every item stays on one thread, what it asks of BLAS and LAPACK included: inside a parallel
// region they do not split their work. So an item's bits depend neither on the number of threads nor on how
// many items there are.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace ropelab::measure {

// Calls work(0) .. work(items - 1), several at once. Exceptions pass through.
inline void EachOnOneThread(int64_t items, absl::FunctionRef<void(int64_t item)> work) {
  // A single item would be run outside a parallel region, where BLAS takes all threads: hence at least two.
  at::parallel_for(0, std::max<int64_t>(items, 2), 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_gradients;
    for (int64_t item = begin; item < std::min(end, items); ++item) work(item);
  });
}

}  // namespace ropelab::measure
