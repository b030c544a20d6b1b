// The spectra of one layer's queries, keys and hidden state. EXPERIMENTS.md section 3.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "ropelab/v1/reading.pb.h"

namespace ropelab::measure {

// query [N, H, D], key [N, G, D], fp32; hidden [N, d], any floating dtype; all on the CPU. `energy` in (0,
// 1]. Sample and layer are left to the caller. Every head's numbers and those of H are made by one thread
// each, or in parts of a fixed size, so bits do not depend on the number of threads. A head of zeros has r1
// and norm_rv NaN and rank 0. FAILED_PRECONDITION, naming head or H: a number is NaN or infinite.
absl::StatusOr<v1::LayerSpectra> SpectraOfLayer(const at::Tensor& query, const at::Tensor& key,
                                                const at::Tensor& hidden, double energy);

// Bytes that SpectraOfLayer allocates at most, with `threads` threads.
int64_t LayerSpectraBytes(int64_t tokens, int64_t hidden_size, int64_t head_dim, int threads);

}  // namespace ropelab::measure
