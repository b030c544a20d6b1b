// The parts of the parity gate, a file each. All append facts; errors are those of a forward pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/measure/parity_facts.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

using Prompts = std::vector<std::vector<int32_t>>;

// What rounding may do in a dtype. `scores`: absolute, for logits of at most 8 (a larger logit carries a
// proportionally larger error); `values`: relative to a row's largest entry, within one layer; `logits`: the
// same after all layers.
struct Tolerance {
  double scores = 0;
  double values = 0;
  double logits = 0;
};
Tolerance ToleranceOf(at::ScalarType dtype);

// The rotary table against long double, its distance to Hugging Face's fp32 angles, and the frequencies
// against the formulas in double, at short positions and up to the model's longest.
void CheckRope(const model::LoadedModel& model, FactList& facts);

// Every layer of every prompt at blocks of 1, 7, 64 and all rows against the plain decoder, each from the
// engine's own input of that layer; then the logits of the whole pass against the plain decoder's own.
absl::Status CheckBlocks(const model::LoadedModel& model, const Prompts& prompts, FactList& facts);

// Which query heads answer when one KV head's keys change sign. On drawn query and key weights, so that no
// head is silent; one layer of each kind of window.
absl::Status CheckKvMapping(const model::LoadedModel& model, const std::vector<int32_t>& prompt,
                            FactList& facts);

// Tokens fed one by one against the whole prompt, all positions.
absl::Status CheckDecoding(const model::LoadedModel& model, const std::vector<int32_t>& prompt,
                           FactList& facts);

// Every expected*.safetensors beside the model, every tensor in it, at the four block sizes. Tolerances are
// absolute: 5e-5 on attn_probs, 2e-4 on the others. `model` is fp32. Errors name the file.
absl::Status CheckExpected(const model::LoadedModel& model, FactList& facts);

// Row limits of the attention blocks that are compared, and their names in facts; 0: all rows.
struct BlockSize {
  int64_t rows;
  const char* name;
};
inline constexpr BlockSize kBlockSizes[] = {
    {1, "blocks_of_1"}, {7, "blocks_of_7"}, {64, "blocks_of_64"}, {0, "one_block"}};

}  // namespace ropelab::measure
