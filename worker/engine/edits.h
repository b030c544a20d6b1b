// Edits of the forward pass at named points. Weights are never changed. EXPERIMENTS.md section 9.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "worker/formats/model_config.h"

namespace ropelab::engine {

enum class EditKind {
  kZeroHead,   // the head's output is zero where it enters the output projection; its probabilities stay
  kScaleDims,  // dims of its query or key times `factor`; 0 zeroes them
  kUnrotate,   // pairs skip RoPE, in its query and in the key as this head alone sees it
};
enum class EditTarget { kQuery, kKey, kBoth };
enum class EditStage {
  kProjection,  // after the bias, before query and key norm
  kPreRope,     // after query and key norm
  kPostRope,
};

struct HeadEdit {
  EditKind kind = EditKind::kZeroHead;
  int64_t layer = 0;
  int64_t head = 0;  // a query head. A key edit hits its KV head, once however many heads name it
  std::vector<int32_t>
      dims;          // kScaleDims: storage indices from 0; kUnrotate: pairs from 0; ascending, unique
  float factor = 0;  // kScaleDims
  EditTarget target = EditTarget::kQuery;  // kScaleDims
  EditStage stage = EditStage::kPreRope;   // kScaleDims
  int64_t first_position = 0;              // of the prompt and of what is generated after it
  int64_t last_position = std::numeric_limits<int64_t>::max();
  bool operator==(const HeadEdit&) const = default;
};
using HeadEdits = std::vector<HeadEdit>;

// INVALID_ARGUMENT names the edit by its place: a layer, head, dim or pair outside the model, dims that are
// not ascending, positions that end before they begin, a factor that is not finite.
absl::Status CheckEdits(const HeadEdits& edits, const formats::ModelConfig& config);

// The first layer that an edit touches; the number of layers where there is none.
int64_t FirstEditedLayer(const HeadEdits& edits, const formats::ModelConfig& config);

// Bytes of the keys that heads with unrotated pairs have for themselves, fp32, at `positions` positions: of
// all layers together.
int64_t OwnKeyBytes(const HeadEdits& edits, const formats::ModelConfig& config, int64_t positions);

}  // namespace ropelab::engine
