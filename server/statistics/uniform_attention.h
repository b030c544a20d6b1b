// The slash score of a head that attends uniformly to every key it sees: what a score is held against.
#pragma once

#include <cstdint>
#include <vector>

namespace ropelab::statistics {

class UniformAttention {
 public:
  // A prompt of `tokens`; row i (from 0) sees its last min(i + 1, window) keys, all i + 1 of them for window
  // 0.
  UniformAttention(int64_t tokens, int64_t window);

  // Sum over rows i in [first_row, tokens) of 1/min(i + 1, window); 0 for no row. Divided by the count of
  // entries of a sub-diagonal it is the score of uniform attention there.
  double SumFrom(int64_t first_row) const;

 private:
  std::vector<double> suffix_;  // suffix_[i] = SumFrom(i), added from the last row up
};

}  // namespace ropelab::statistics
