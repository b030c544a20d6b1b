// Sums of attention along sub-diagonals for all offsets of a range in one pass (EXPERIMENTS.md 1).
#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/observer.h"

namespace ropelab::engine {

struct SlashRange {
  int64_t first_offset = 0;
  int64_t last_offset = 0;
  int64_t skip_first = 0;    // S[i, j] counts only for j >= skip_first
  bool common_rows = false;  // only rows i >= last_offset + skip_first, the same for every offset
  int64_t offsets() const { return last_offset - first_offset + 1; }
};

// Accumulators of one layer, reused for the next. Memory: 8 * kStrips * heads * offsets bytes, whatever the
// prompt's length.
class SlashSums {
 public:
  SlashSums(int64_t heads, SlashRange range);

  // As Observer::Probabilities. Rows of a block are summed in fp32, blocks in double.
  void Add(const ProbabilityBlock& block);
  // The same by tensor operators, for probabilities that the CPU cannot read; Add chooses it there.
  void AddByOperators(const ProbabilityBlock& block);
  // [heads * offsets], head-major: sum over the counted rows i of S[i, i - offset]. Then starts anew.
  std::vector<double> Take();

 private:
  void AddOnCpu(const ProbabilityBlock& block);
  double* Accumulator(int64_t strip, int64_t head);

  int64_t heads_;
  SlashRange range_;
  std::vector<double> sums_;  // [kStrips, heads, offsets]
};

}  // namespace ropelab::engine
