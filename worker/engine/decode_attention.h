// Attention of one new position per row over a cache, for decoding.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "worker/engine/attention_rule.h"

namespace ropelab::engine {

// Keys and values of one layer for a batch of rows, fp32, at most `capacity` positions.
class LayerCache {
 public:
  LayerCache(int64_t rows, int64_t kv_heads, int64_t head_dim, int64_t capacity, at::Device device);

  // keys, values [rows, G, D], of one position.
  void Store(int64_t position, const at::Tensor& keys, const at::Tensor& values);
  // queries [rows, H, D] at `position`, the last one stored. Returns the heads' outputs, same shape. Rows and
  // heads do not depend on each other or on the number of threads.
  at::Tensor Attend(const at::Tensor& queries, int64_t position, const AttentionRule& rule) const;
  // The same by tensor operators; Attend chooses it away from the CPU.
  at::Tensor AttendByOperators(const at::Tensor& queries, int64_t position, const AttentionRule& rule) const;

 private:
  void AttendOnCpu(const at::Tensor& queries, at::Tensor& outputs, int64_t position,
                   const AttentionRule& rule) const;

  at::Tensor keys_;    // [rows, G, D, capacity]: by dimension, so that the product runs along positions
  at::Tensor values_;  // [rows, G, capacity, D]
};

}  // namespace ropelab::engine
