// How narrow the cone is in which the vocabulary lies around given axes. EXPERIMENTS.md section 3; the slash
// paper 4.3.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <vector>

#include "worker/measure/vocabulary_rows.h"

namespace ropelab::measure {

inline constexpr int64_t kCosineBins = 200;

// Sums over the tokens for one axis v, in token order.
class AxisSums {
 public:
  // v'x of the next token, and |x|.
  void Add(double projection, double length);

  // std / |mean| of v'x over all tokens, ddof 1. NaN for one token and where both are 0; infinite where the
  // mean alone is 0.
  double RelativeVariation() const;

  using Counts = std::array<int64_t, kCosineBins>;
  // Tokens per bin of v'x / |x|, bin b covering [-1 + b/100, -1 + (b+1)/100) and the last one 1 as well, for
  // v or for -v: whichever has the mean cosine that is not negative. A token with |x| = 0 is left out.
  const Counts& CosineCounts() const { return cosines_ < 0 ? turned_ : counts_; }

 private:
  int64_t tokens_ = 0;
  double mean_ = 0, m2_ = 0;    // Welford's
  double cosines_ = 0;          // their sum
  Counts counts_{}, turned_{};  // for v, for -v
};

// The same for several axes at once: one product per stretch of the vocabulary. An axis is worked on by one
// thread; bits do not depend on their number.
class ConeSums {
 public:
  explicit ConeSums(const at::Tensor& axes);  // [axes, d] double, each of length 1 or 0 where cosines count

  void Add(const VocabularyRows& rows);

  const std::vector<AxisSums>& axes() const { return sums_; }

 private:
  const at::Tensor axes_;
  std::vector<AxisSums> sums_;
};

// The baseline's axes [vectors, d] double, not normed: vector r holds normals of Philox(seed, kCone, r).
at::Tensor RandomAxes(uint64_t seed, int64_t vectors, int64_t dimensions);

}  // namespace ropelab::measure
