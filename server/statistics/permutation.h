// The layer-clustered permutation test: do labelled heads have larger (or smaller) values than the rest,
// given that heads of a layer are not independent? EXPERIMENTS.md section 8; the retrieval paper,
// section 3.6.
#pragma once

#include <cstdint>
#include <span>

#include "server/statistics/defined.h"

namespace ropelab::statistics {

inline constexpr int64_t kPermutations = 10000;

struct LabelledHead {
  int64_t layer = 0;
  double value = 0;  // finite
  bool labelled = false;
};

// Mean value of the labelled heads less that of the rest, over all heads. Undefined where either is empty.
Defined<double> DifferenceOfMeans(std::span<const LabelledHead> heads);

struct PermutationTest {
  double difference = 0;  // T, DifferenceOfMeans
  // The exact mean of T* when labels are permuted within layers: not 0 where layers differ in value and in
  // their share of labels.
  double null_mean = 0;
  int64_t layers = 0;
  int64_t layers_without_both = 0;  // all labelled or none: permuting changes nothing there
  int64_t permutations = 0;
  // Two-sided: (1 + how many of B permutations have |T*| >= |T|) / (1 + B), and the same of |T* - null_mean|
  // >= |T - null_mean|. Undefined where no layer has both labels.
  Defined<double> p_paper = Undefined{}, p_centred = Undefined{};
};
// T* is the same difference over all heads with the labels permuted within each layer: a layer without both
// labels adds the same constant to every T*. Values of |T*| that lie below |T| by no more than 1e-12 of the
// largest |value| count as ties. Heads may come in any order of layers; within a layer their order is that of
// the draws (docs/random-numbers.md, purpose 14). `permutations` > 0. Undefined as DifferenceOfMeans.
Defined<PermutationTest> ClusteredPermutationTest(std::span<const LabelledHead> heads, int64_t permutations,
                                                  uint64_t seed);

}  // namespace ropelab::statistics
