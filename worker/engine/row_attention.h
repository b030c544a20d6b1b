// Attention of one new position per row, each row over the prompt's keys that are its own and over what was
// generated since.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "worker/engine/attention_rule.h"
#include "worker/engine/prompt_keys.h"

namespace ropelab::engine {

// One layer's view of a row: what its prompt left, and the heads (ascending) that have own keys there.
struct AttendedRow {
  PromptKeys prompt;
  std::vector<int64_t> own_heads;
};

class RowAttention {
 public:
  // All prompts have `tokens` tokens; `capacity`: positions after them at most. Rows whose prompt is
  // undefined are never attended.
  RowAttention(std::vector<AttendedRow> rows, const formats::ModelConfig& config, int64_t tokens,
               int64_t capacity, at::Device device);

  // keys, values [rows, G, D] of generated position `index` (from 0); own_keys: per row [1, U, D] or
  // undefined, as LayerEdits::AfterRope gives them. All after RoPE, fp32.
  void Store(int64_t index, const at::Tensor& keys, const at::Tensor& values,
             const std::vector<at::Tensor>& own_keys);
  // queries [rows, H, D] fp32 contiguous, at generated position `index`, the last one stored. Of the rows
  // that are `live` the heads' outputs, zeros of the others, same shape. Rows and heads do not depend on each
  // other or on the number of threads. `finite` becomes false when a live row's logit was not finite.
  at::Tensor Attend(const at::Tensor& queries, int64_t index, const AttentionRule& rule,
                    const std::vector<bool>& live, bool& finite) const;
  // The same by tensor operators; Attend chooses it away from the CPU.
  at::Tensor AttendByOperators(const at::Tensor& queries, int64_t index, const AttentionRule& rule,
                               const std::vector<bool>& live, bool& finite) const;

  // Bytes that an object allocates, without own keys.
  static int64_t Bytes(const formats::ModelConfig& config, int64_t rows, int64_t capacity);

 private:
  at::Tensor AttendOnCpu(const at::Tensor& queries, int64_t index, const AttentionRule& rule,
                         const std::vector<bool>& live, bool& finite) const;
  // Keys that a row's head sees: [D, T] and [D, capacity].
  struct HeadKeys {
    at::Tensor prompt, generated;
  };
  HeadKeys KeysOf(int64_t row, int64_t head) const;

  const std::vector<AttendedRow> rows_;
  const int64_t query_heads_, kv_heads_, tokens_;
  at::Tensor keys_;                   // [rows, G, D, capacity]
  at::Tensor values_;                 // [rows, G, capacity, D]
  std::vector<at::Tensor> own_keys_;  // per row [U, D, capacity]
};

}  // namespace ropelab::engine
