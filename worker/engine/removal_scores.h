// The slash scores of named heads with some RoPE pairs of their queries and keys left unrotated
// (EXPERIMENTS.md 4). In place: nothing propagates, the forward pass goes on as it is.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/attention.h"
#include "worker/engine/observer.h"
#include "worker/engine/slash_sums.h"
#include "worker/formats/model_config.h"

namespace ropelab::engine {

struct OffsetHead {
  int64_t layer = 0, head = 0, offset = 0;
};

// Keeps a layer's queries and keys before and after RoPE, of the KV groups that hold named heads only, and
// runs the same blockwise attention over these groups once per list of pairs. A block has the shapes that it
// has in the forward pass, so an empty list gives the forward pass's own sums, bit for bit (on the CPU).
// "Unrotated" is the vector before RoPE; an attention factor of the scaling (yarn, longrope) is not applied
// to it.
class RemovalScores {
 public:
  // `heads` ascend by layer and head and lie within the config; `removals` are lists of pairs, from 1,
  // fastest first. Of `range`, skip_first, common_rows and last_offset count; each head has its own offset.
  RemovalScores(const formats::ModelConfig& config, std::vector<OffsetHead> heads,
                std::vector<std::vector<int64_t>> removals, SlashRange range, int64_t block_rows);

  // INVALID_ARGUMENT: a pair that a head of this config does not have.
  absl::Status StartPrompt(int64_t tokens, at::Device device);
  // As Observer::Projected.
  void Projected(const ProjectedRows& rows);
  // After the layer. Calls `done` after each removal with the share of the layer's removals that are over; an
  // error of it ends the work and is returned. FAILED_PRECONDITION where a logit is not finite.
  absl::Status FinishLayer(int64_t layer, absl::FunctionRef<absl::Status(double share)> done);

  // Sum over the counted rows i of S[i, i - offset], of this prompt: [removals, heads].
  const std::vector<double>& sums() const { return sums_; }

  // Bytes held beside the forward pass's own, with `threads` threads.
  static int64_t Bytes(const formats::ModelConfig& config, const std::vector<OffsetHead>& heads,
                       int64_t tokens, int64_t block_rows, int threads);

 private:
  struct LayerHeads {
    std::vector<int64_t> groups;  // KV groups, ascending
    size_t first = 0, end = 0;    // of heads_
  };
  const LayerHeads* Find(int64_t layer) const;
  bool Run(const LayerHeads& heads, int64_t layer, size_t removal, Attention& attention);

  const formats::ModelConfig& config_;
  const std::vector<OffsetHead> heads_;
  const std::vector<std::vector<int64_t>> removals_;
  const SlashRange range_;
  const int64_t block_rows_, group_heads_;
  std::vector<LayerHeads> layers_;  // one per layer of the config
  size_t most_groups_ = 0;
  int64_t tokens_ = 0;
  std::vector<at::Tensor> dimensions_;  // per removal, int64
  at::Tensor query_pre_, query_rot_;    // [N, groups * heads per group, D] fp32
  at::Tensor key_pre_, key_rot_;        // [groups, D, N]
  std::vector<double> sums_;
};

}  // namespace ropelab::engine
