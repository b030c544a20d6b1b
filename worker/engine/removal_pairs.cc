#include "worker/engine/removal_pairs.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace ropelab::engine {

std::vector<int64_t> PairsByFrequency(const std::vector<double>& inv_freq) {
  std::vector<int64_t> order(inv_freq.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return inv_freq[a] > inv_freq[b]; });
  return order;
}

absl::StatusOr<std::vector<int64_t>> DimensionsOfPairs(const std::vector<int64_t>& pairs,
                                                       const std::vector<double>& inv_freq) {
  const int64_t count = static_cast<int64_t>(inv_freq.size());
  const std::vector<int64_t> order = PairsByFrequency(inv_freq);
  std::vector<int64_t> dimensions;
  int64_t before = 0;
  for (const int64_t pair : pairs) {
    if (pair <= before || pair > count) {
      return absl::InvalidArgumentError(absl::StrCat("pair ", pair, " of a removal: pairs are 1 to ", count,
                                                     ", in ascending order, each once"));
    }
    before = pair;
    dimensions.push_back(order[pair - 1]);
  }
  for (size_t i = 0; i < pairs.size(); ++i) dimensions.push_back(dimensions[i] + count);
  return dimensions;
}

}  // namespace ropelab::engine
