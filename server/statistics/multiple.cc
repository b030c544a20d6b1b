#include "server/statistics/multiple.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace ropelab::statistics {

std::vector<double> BenjaminiHochberg(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  const double n = static_cast<double>(p.size());
  double least = 1;  // of p n / rank from here up
  for (size_t rank = order.size(); rank > 0; --rank) {
    const size_t test = order[rank - 1];
    least = std::min(least, p[test] * n / static_cast<double>(rank));
    adjusted[test] = least;
  }
  return adjusted;
}

}  // namespace ropelab::statistics
