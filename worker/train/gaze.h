// Which rows of a batch are watched for heads that look at a needle, so that few heads learn to.
#pragma once

#include <ATen/ATen.h>

#include "common/philox.h"
#include "worker/train/sample_batch.h"

namespace ropelab::train {

// Rows after a sample's first needle: up to 32 of its questions and answers, and up to 32 others that are
// drawn. Weights of either kind add up to 1 over the batch, or to 0 where it has none; both to 2 at most.
struct Gaze {
  at::Tensor rows;     // [B, 64], int64
  at::Tensor weights;  // [B, 64], fp32; 0 where a place is not taken
  at::Tensor needles;  // [B, N], fp32: 1 on tokens of statements and on the 3 behind each, but for `asked`
};

Gaze DrawGaze(const SampleBatch& batch, Philox& stream);

// Sum over the watched rows, weighted, of what share of a head's attention beside the first token lies on
// needles; mean over all heads, those with free = 1 counting nothing. From 0 to below 2: a mean over each
// kind of rows. Differentiable. query [B, G, R, N, D], scaled; key [B, G, N, D]; free [G R], fp32.
at::Tensor StrayGaze(const at::Tensor& query, const at::Tensor& key, const Gaze& gaze,
                     const at::Tensor& free);

}  // namespace ropelab::train
