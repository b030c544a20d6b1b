#include "server/statistics/sets.h"

#include <algorithm>

namespace ropelab::statistics {
namespace {

void SortOnce(std::vector<Place>& places) {
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
}

}  // namespace

Overlap OverlapOf(std::vector<Place> first, std::vector<Place> second) {
  SortOnce(first);
  SortOnce(second);
  std::vector<Place> shared;
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(shared));
  return {static_cast<int64_t>(first.size()), static_cast<int64_t>(second.size()),
          static_cast<int64_t>(shared.size())};
}

Defined<double> Jaccard(const Overlap& overlap) {
  const int64_t either = overlap.first + overlap.second - overlap.shared;
  if (either == 0) {
    return Undefined{"both sets are empty"};
  }
  return static_cast<double>(overlap.shared) / static_cast<double>(either);
}

}  // namespace ropelab::statistics
