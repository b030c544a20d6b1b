// A decoder's row-wise steps as a ModelConfig describes them: which norms there are, in which order and
// dtype, what is added to the residual. The pass over a whole prompt and decoding share them. The residual is
// [rows, d] in the activations' dtype; rows do not depend on each other. libtorch's exceptions pass through.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>

#include "worker/formats/model_config.h"
#include "worker/model/loaded_model.h"

namespace ropelab::engine {

// The residual before the first layer, [ids, d]: the embedding times config.embedding_scale, which is rounded
// to the activations' dtype first. Ids are within the vocabulary.
at::Tensor Embed(const model::LoadedModel& model, std::span<const int32_t> ids);

// What the projections of attention take, [rows, d] in the activations' dtype: the residual after the norm
// before attention, or the residual itself where the family has no such norm.
at::Tensor AttentionInput(const at::Tensor& residual, const model::LayerWeights& weights,
                          const formats::ModelConfig& config);

// What attention takes, fp32, rounded to the activations' dtype, before RoPE.
struct HeadRows {
  at::Tensor query;       // [rows, H, D], after bias and query norm
  at::Tensor key, value;  // [rows, G, D], the key after bias and key norm
};
HeadRows ProjectHeads(const at::Tensor& residual, const model::LayerWeights& weights,
                      const formats::ModelConfig& config);

// ProjectHeads in its two halves, for what acts between them. The first: after the bias and before any norm
// of queries and keys, same shapes, in the activations' dtype. The second takes what the first gave.
HeadRows RawHeads(const at::Tensor& residual, const model::LayerWeights& weights,
                  const formats::ModelConfig& config);
HeadRows NormedHeads(const HeadRows& raw, const model::LayerWeights& weights,
                     const formats::ModelConfig& config);

// heads [rows, H, D] fp32, attention's outputs. Adds the attention block to the residual, then the MLP, in
// place.
void FinishLayer(at::Tensor& residual, const at::Tensor& heads, const model::LayerWeights& weights,
                 const formats::ModelConfig& config);

// Output logits [rows, V] of the residual after the last layer, fp32 rounded to the activations' dtype, soft
// cap included. `final_norm` and `lm_head` are ready for products.
at::Tensor OutputLogits(const at::Tensor& residual, const at::Tensor& final_norm, const at::Tensor& lm_head,
                        const formats::ModelConfig& config);

}  // namespace ropelab::engine
