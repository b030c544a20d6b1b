// Causal attention for training, in blocks of query rows: keys beyond a block's last row are never touched.
#pragma once

#include <ATen/ATen.h>

namespace ropelab::train {

// softmax over j <= i of query key^T, times value. query [X, R, N, D], already scaled; key and value
// [X, N, D]; R query heads share a key head. All of one dtype, which the result [X, R, N, D] has too. Keeps
// the probabilities for the backward pass: X R N (N + 128) / 2 of them.
at::Tensor BlockedAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

}  // namespace ropelab::train
