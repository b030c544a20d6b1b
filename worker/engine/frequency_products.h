// What one RoPE pair adds to the logits of one head: InP(i, j) = query_i[pair] . key_j[pair], after RoPE,
// before scale and soft cap, over all keys j <= i whatever the layer's window. The slash paper, section 4.4;
// EXPERIMENTS.md 4.
//
// Every sum has a fixed order, so bits depend neither on the threads nor on who asks. Loops are compiled for
// several instruction sets, as those of row_kernels.h.
#pragma once

#include <cstdint>

namespace ropelab::engine {

// The two dimensions of a pair, each over positions 0 .. tokens - 1.
struct PairVectors {
  const float* query_low = nullptr;
  const float* query_high = nullptr;
  const float* key_low = nullptr;
  const float* key_high = nullptr;
  int64_t tokens = 0;
};

// Sum over j <= i of InP(i, j): each query times the sum of the keys up to it, in double; O(tokens).
double SumOfProducts(const PairVectors& pair);
// Sum over j <= i of |InP(i, j)|; O(tokens^2), nothing is kept. Products and partial sums of 1024 entries are
// fp32, their sum is double.
double SumOfMagnitudes(const PairVectors& pair);
// Sum over i from offset + first_key on of InP(i, i - offset), in double. 0 <= offset, 0 <= first_key.
double SumAtLag(const PairVectors& pair, int64_t offset, int64_t first_key);
// products[j] = InP(row, j), j <= row, in double.
void ProductsOfRow(const PairVectors& pair, int64_t row, double* products);

}  // namespace ropelab::engine
