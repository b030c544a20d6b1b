// Blockwise causal attention of one layer. Nothing of size N x N exists: a block of query rows against the
// keys up to its last row, for one KV group at a time.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "worker/engine/attention_rule.h"
#include "worker/engine/observer.h"

namespace ropelab::engine {

struct AttentionShape {
  int64_t tokens = 0;
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t block_rows = 0;
};

// Heads that see keys of their own in the place of their group's.
struct OwnKeys {
  std::vector<int64_t> heads;  // ascending
  std::vector<int64_t> from;   // per head the first position whose key or query is not the group's
  at::Tensor keys;             // [heads, D, N] fp32, contiguous
};

class Attention {
 public:
  // Buffers for every thread's block are allocated here, once per run: threads * heads per group * block_rows
  // * (tokens + 2 D) floats.
  Attention(const AttentionShape& shape, at::Device device);

  struct Layer {
    int64_t layer = 0;
    AttentionRule rule;
    Observer* observer = nullptr;       // null: nobody looks
    bool outputs = true;                // false: only the observer wants this layer
    const OwnKeys* own_keys = nullptr;  // null: every head sees its group's
  };
  // queries [N, H, D], keys [G, D, N], values [G, N, D], fp32, contiguous. With `outputs`, queries are
  // replaced by the heads' outputs. Each item (group, strip) is computed by one thread from start to end, so
  // bits do not depend on the number of threads; on the CPU a position's output has the bits that
  // RowAttention gives it. False when a logit was not finite.
  bool Run(const Layer& layer, at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values);

  static int64_t ScratchBytes(const AttentionShape& shape, int threads);

 private:
  struct Scratch {
    at::Tensor logits, queries, outputs;  // flat
  };
  bool RunBlock(const Layer& layer, int64_t group, int64_t strip, int64_t first_row, Scratch& scratch,
                at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values);
  // Logits [heads * rows, width] of the group's heads with keys of their own, over those of the whole group.
  void ReplaceOwn(const OwnKeys& own, int64_t group, int64_t first_row, int64_t first_key,
                  const at::Tensor& packed, at::Tensor& logits) const;

  AttentionShape shape_;
  std::vector<Scratch> scratch_;  // one per thread
};

}  // namespace ropelab::engine
