// The hidden state H of one layer for a QueryKeyProfile. EXPERIMENTS.md section 3.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "ropelab/v1/choices.pb.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// H [N, d] at `stage` of the residual that enters block `layer` ([N, d], the activations' dtype): a copy on
// the CPU in the same dtype. NORMED is what the projections take, in the chunks of the forward pass, and so
// the same bits; where norms sit on block outputs, it is the residual. One thread.
at::Tensor HiddenAt(v1::HiddenStage::Value stage, int64_t layer, const at::Tensor& residual,
                    const model::LoadedModel& model);

// The first `rows` rows of H in min(d, columns) columns, float32. FIRST_COORDINATES: H's first ones. PCA: the
// projections on the leading principal directions of all of H's rows, about their mean, directions as EigenOf
// signs them; a direction that has no energy (below rounding) gives zeros.
at::Tensor ViewOfHidden(const at::Tensor& hidden, int64_t rows, int64_t columns, v1::HiddenView::Value view);

// Bytes that ViewOfHidden allocates at most beside H.
int64_t HiddenViewBytes(int64_t tokens, int64_t hidden_size, int64_t rows, int64_t columns,
                        v1::HiddenView::Value view);

}  // namespace ropelab::measure
