// What looks on while a prompt goes through the decoder. The decoder calls; nothing an observer does changes
// the forward pass.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "absl/status/status.h"

namespace ropelab::engine {

// Row blocks of a layer are dealt to this many strips whatever the number of threads. One strip's blocks of a
// KV group come one after the other, in ascending rows; what an observer sums, it sums per strip and joins in
// strip order, so that no sum depends on scheduling.
inline constexpr int64_t kStrips = 8;

// Attention probabilities of the query heads of one KV group for a block of rows, fp32, while they are in
// cache. Entries outside the causal triangle or the sliding window are 0; keys before first_key or after the
// block's last row are not there.
struct ProbabilityBlock {
  int64_t layer = 0;
  int64_t strip = 0;
  int64_t first_head = 0;
  int64_t first_row = 0;
  int64_t first_key = 0;
  at::Tensor probabilities;  // [heads, rows, keys], contiguous; valid during the call only
};

// Queries, keys and values of one layer, fp32 (rounded to the activations' dtype), as head edits left them.
// Valid during the call only.
struct ProjectedRows {
  int64_t layer = 0;
  int64_t first_row = 0;
  at::Tensor query_pre, key_pre;  // [rows, H, D], [rows, G, D]: after bias and q/k norm, before RoPE
  at::Tensor query_rot, key_rot;  // the same after RoPE
  at::Tensor value = {};          // [rows, G, D]
  // [rows, U, D]: the keys after RoPE as the heads with unrotated pairs see them, ascending; undefined where
  // there are none.
  at::Tensor own_keys = {};
};

class Observer {
 public:
  virtual ~Observer() = default;

  // Whether Probabilities is to be called; asked once per layer.
  virtual bool WantsProbabilities(int64_t /*layer*/) { return false; }
  // Called from several threads at once, but never at once for one (group, strip).
  virtual void Probabilities(const ProbabilityBlock& /*block*/) {}
  // Called from several threads at once, for disjoint rows.
  virtual void Projected(const ProjectedRows& /*rows*/) {}
  // Input [T, d] of block `layer`; for layer == L the last block's output, before the final norm.
  // Activations' dtype. One thread.
  virtual void Hidden(int64_t /*layer*/, const at::Tensor& /*hidden*/) {}
  // All of this layer's calls are over. An error ends the forward pass and is returned from it. One thread.
  virtual absl::Status LayerDone(int64_t /*layer*/) { return absl::OkStatus(); }
};

}  // namespace ropelab::engine
