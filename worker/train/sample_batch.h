// Samples as the tensors that a step takes.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "worker/train/training_samples.h"

namespace ropelab::train {

struct SampleBatch {
  at::Tensor ids;            // [B, N], int64: what the model reads
  at::Tensor targets;        // [B, N], int64: what comes next
  at::Tensor text, answers;  // [B, N], fp32: 1 where the target counts as such
  // [B, N], fp32: 1 where the token itself belongs to a statement; to a question or answer.
  at::Tensor needles, asked;
};

// At least one sample; all of N + 1 tokens, N >= 1. No samples: std::out_of_range.
SampleBatch MakeBatch(const std::vector<TrainingSample>& samples);

}  // namespace ropelab::train
