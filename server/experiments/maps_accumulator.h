// Merges the map readings of one model and seed.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ropelab/v1/reading.pb.h"

namespace ropelab::experiments {

// A head's mean attention over all prompts.
struct HeadMap {
  int64_t size = 0;  // cells per side
  int64_t prompts = 0;
  std::vector<double> cells;      // row-major; NaN: the cell has no causal entry
  std::vector<double> diagonals;  // of sub-diagonal 0, 1, ...
};

// Blocks must be added in plan order: the bits of a sum depend on it.
class MapsAccumulator {
 public:
  using Head = std::pair<int64_t, int64_t>;  // layer, head

  // A head that must have a map in the end.
  void Expect(const Head& head) { sums_[head]; }
  // INTERNAL for a piece that does not fit those before it.
  absl::Status Add(const v1::MapBlock& block);
  // INTERNAL unless every map is whole and of exactly `prompts` prompts; DATA_LOSS for a mean that is not
  // finite.
  absl::Status CheckComplete(int64_t prompts) const;

  std::map<Head, HeadMap> Means() const;
  size_t heads() const { return sums_.size(); }

 private:
  std::map<Head, HeadMap> sums_;  // of the prompts' values
};

}  // namespace ropelab::experiments
