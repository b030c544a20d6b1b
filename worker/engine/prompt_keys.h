// The keys and values that a pass over a prompt leaves for the tokens that follow it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/engine/layer_edits.h"
#include "worker/engine/observer.h"
#include "worker/model/loaded_model.h"

namespace ropelab::engine {

// One layer's, of a prompt of T tokens, after RoPE and head edits, fp32, contiguous. Copies share the
// tensors.
struct PromptKeys {
  at::Tensor keys;      // [G, D, T]: by dimension, so that a product runs along positions
  at::Tensor values;    // [G, T, D]
  at::Tensor own_keys;  // [U, D, T], of the heads with unrotated pairs, ascending; undefined where none
};

// Keeps them while a pass runs, and what enters the layer before which it ends.
class PromptKeysKeeper : public Observer {
 public:
  // The pass is one of `tokens` tokens under `edits` that ends before `end_layer`; `progress` is asked after
  // each layer. All references must outlive the pass.
  PromptKeysKeeper(const model::LoadedModel& model, int64_t tokens, const EditsByLayer& edits,
                   int64_t end_layer, absl::FunctionRef<absl::Status()> progress);

  void Hidden(int64_t layer, const at::Tensor& hidden) override;
  void Projected(const ProjectedRows& rows) override;
  absl::Status LayerDone(int64_t layer) override;

  // By layer; those that the pass did not reach are undefined.
  const std::vector<PromptKeys>& layers() const { return layers_; }
  // [T, d]; undefined where the pass ends after the last layer.
  const at::Tensor& residual() const { return residual_; }

 private:
  const model::LoadedModel& model_;
  const int64_t tokens_;
  const EditsByLayer& edits_;
  const int64_t end_layer_;
  const absl::FunctionRef<absl::Status()> progress_;
  std::vector<PromptKeys> layers_;
  at::Tensor residual_;
};

// Bytes of all layers' keys and values at `positions` positions, without own keys.
int64_t PromptKeysBytes(const formats::ModelConfig& config, int64_t positions);

}  // namespace ropelab::engine
