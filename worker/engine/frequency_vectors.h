// Queries and keys of named heads, kept while their layer is looked at pair by pair (EXPERIMENTS.md 4).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "worker/engine/observer.h"
#include "worker/formats/model_config.h"

namespace ropelab::engine {

struct NamedHead {
  int64_t layer = 0, head = 0;
};

// Holds one layer at a time, on the CPU whatever the model's device, dimension by dimension: a RoPE pair's
// values over all positions lie side by side. Every named query head has a query, every KV group among them
// one key.
class FrequencyVectors {
 public:
  // `heads` ascend by layer and head and lie within the config. `before_rope`: the vectors before RoPE are
  // kept as well as the rotated ones.
  FrequencyVectors(const formats::ModelConfig& config, std::vector<NamedHead> heads, bool before_rope);

  void StartPrompt(int64_t tokens);
  // As Observer::Projected. Layers without a named head are passed over.
  void Projected(const ProjectedRows& rows);

  // Places in heads() of a layer's heads: [first, end).
  struct Range {
    size_t first = 0, end = 0;
  };
  Range HeadsOf(int64_t layer) const { return ranges_[layer]; }
  const std::vector<NamedHead>& heads() const { return heads_; }

  // Of the head at this place, which is of the layer that was projected last: [D, N] fp32, contiguous. Valid
  // until the next layer is projected.
  struct Vectors {
    at::Tensor query, key;
  };
  Vectors BeforeRope(size_t place) const { return Of(before_, place); }
  Vectors Rotated(size_t place) const { return Of(rotated_, place); }

  // Bytes held with prompts of at most `tokens`.
  static int64_t Bytes(const formats::ModelConfig& config, const std::vector<NamedHead>& heads,
                       int64_t tokens, bool before_rope);

 private:
  struct Kept {
    at::Tensor queries, keys;  // [most heads of a layer, D, N], [most groups, D, N]
  };
  Vectors Of(const Kept& kept, size_t place) const;
  void Keep(Kept& kept, const Range& range, int64_t first_row, const at::Tensor& query,
            const at::Tensor& key) const;

  const int64_t head_dim_, group_heads_;
  const std::vector<NamedHead> heads_;
  const bool before_rope_;
  std::vector<Range> ranges_;   // one per layer of the config
  std::vector<int64_t> slots_;  // per head, which of its layer's kept keys is its own
  int64_t most_heads_ = 0, most_groups_ = 0;
  int64_t tokens_ = 0;
  Kept before_, rotated_;
};

}  // namespace ropelab::engine
