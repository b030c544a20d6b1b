// The head edits of one layer, ready to be applied to rows of it. EXPERIMENTS.md section 9. The pass over a
// whole prompt and decoding share them. Everything is changed in place; rows do not depend on each other.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "worker/engine/edits.h"

namespace ropelab::engine {

class LayerEdits {
 public:
  // Of an `edit`, within the config (CheckEdits). `inv_freq` says which pairs are the fastest.
  void Add(const HeadEdit& edit, const formats::ModelConfig& config, const std::vector<double>& inv_freq,
           at::ScalarType activations, at::Device device);

  // query [rows, H, D], key [rows, G, D], any floating dtype; row r is at position first + r. Before the
  // norms of queries and keys.
  void AtProjection(const at::Tensor& query, const at::Tensor& key, int64_t first) const;
  // After the norms and before RoPE; fp32.
  void BeforeRope(const at::Tensor& query, const at::Tensor& key, int64_t first) const;
  // After RoPE, the unrotated rows beside the rotated ones; fp32. Returns the keys as the heads with
  // unrotated pairs see them, [rows, own_heads, D]; undefined where there are none.
  at::Tensor AfterRope(const at::Tensor& query_pre, const at::Tensor& key_pre, const at::Tensor& query_rot,
                       const at::Tensor& key_rot, int64_t first) const;
  // The heads' outputs [rows, H, D] where they enter the output projection.
  void AtOutput(const at::Tensor& heads, int64_t first) const;

  // Query heads with keys of their own, ascending, and for each the first position that differs from its
  // group's.
  const std::vector<int64_t>& own_heads() const { return own_heads_; }
  const std::vector<int64_t>& own_from() const { return own_from_; }

 private:
  // Dimensions of one head: of the query heads, or of the KV heads.
  struct Scaling {
    int64_t head = 0;
    at::Tensor dims;  // int64, on the model's device
    float factor = 0;
    int64_t first = 0, last = 0;
    bool operator==(const Scaling& other) const;
  };
  // A key edit and the query head that named it.
  struct KeyScaling {
    Scaling scaling;
    int64_t named_by = 0;
  };
  struct Unrotation {
    int64_t head = 0, kv_head = 0;
    at::Tensor dims;
    int64_t first = 0, last = 0;
  };
  struct Stage {
    std::vector<Scaling> query;
    std::vector<Scaling> key;
    std::vector<KeyScaling> named;  // every key edit that was added
  };
  struct Zeroing {
    int64_t head = 0, first = 0, last = 0;
  };

  void AddScaling(const HeadEdit& edit, const formats::ModelConfig& config, at::Device device);
  void AddUnrotation(const HeadEdit& edit, const formats::ModelConfig& config,
                     const std::vector<double>& inv_freq, at::Device device);
  void Apply(const std::vector<Scaling>& scalings, const at::Tensor& rows, int64_t first) const;
  void ApplyOne(const Scaling& scaling, int64_t place, const at::Tensor& rows, int64_t first) const;
  void ApplyStage(EditStage stage, const at::Tensor& query, const at::Tensor& key, int64_t first) const;

  at::ScalarType activations_ = at::kFloat;
  std::array<Stage, 3> stages_;  // by EditStage
  std::vector<Unrotation> unrotations_;
  std::vector<Zeroing> zeroings_;
  std::vector<int64_t> own_heads_, own_from_;
  std::vector<int64_t> own_groups_;  // KV heads of own_heads_
};

// By layer; layers without an edit that changes anything are not there. `inv_freq` as above.
using EditsByLayer = std::map<int64_t, LayerEdits>;
EditsByLayer ReadyEdits(const HeadEdits& edits, const formats::ModelConfig& config,
                        const std::vector<double>& inv_freq, at::ScalarType activations, at::Device device);

}  // namespace ropelab::engine
