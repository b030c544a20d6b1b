// The inner loops of attention on the CPU, over raw fp32 rows. Each is compiled for several instruction sets
// and the widest that the processor has is taken, so bits may differ between processors (the numerics class
// tells them apart) but never between runs, threads or alignments: every sum has a fixed order.
#pragma once

#include <cstdint>

namespace ropelab::engine {

// In place: softmax of scale * row[0..n), n > 0, scale > 0. The largest entry is subtracted first; partial
// sums of 1024 entries are fp32, their sum is double. False when the sum is not finite: a logit was NaN or
// infinite.
bool SoftmaxRow(float* row, int64_t n, float scale);

// In place: cap * tanh(scale * row[i] / cap), i in [0, n), cap > 0; within 3 ulp of the exact value for that
// fp32 argument. False when an entry is NaN or infinite.
bool SoftCapRow(float* row, int64_t n, float scale, float cap);

// In place: softmax of scale * row[0..n), soft-capped first unless soft_cap is 0. False as the two above.
inline bool CappedSoftmaxRow(float* row, int64_t n, double scale, double soft_cap) {
  if (soft_cap == 0) return SoftmaxRow(row, n, static_cast<float>(scale));
  const bool finite = SoftCapRow(row, n, static_cast<float>(scale), static_cast<float>(soft_cap));
  return SoftmaxRow(row, n, 1.0f) && finite;
}

// sums[i] += row[i], i in [0, n).
void AddRow(const float* row, int64_t n, float* sums);

// logits[t] = sum over d of query[d] * keys[d * stride + t], t in [0, n): keys are stored dimension by
// dimension.
void QueryTimesKeys(const float* query, const float* keys, int64_t dims, int64_t stride, int64_t n,
                    float* logits);

// Positions whose terms are added up before their sum joins the others': a long sum's error grows with the
// number of blocks and of a block's terms, not with their product.
inline constexpr int64_t kSumBlock = 64;

// The sum over positions of weight times values [dims], in blocks of kSumBlock positions.
class WeightedValues {
 public:
  // output: [dims] zeros; the sum once Finish was called. block: scratch, [dims] zeros.
  WeightedValues(int64_t dims, float* block, float* output) : dims_(dims), block_(block), output_(output) {}
  // weights[t] * values[t * dims + d] of the positions first + t, t in [0, n), which follow the last ones.
  void Add(const float* weights, const float* values, int64_t n, int64_t first);
  void Finish();  // leaves `block` zero

 private:
  const int64_t dims_;
  float* const block_;
  float* const output_;
};

}  // namespace ropelab::engine
