// Products and elementwise functions on the CPU in which no row knows of the others.
#pragma once

#include <ATen/ATen.h>

#include "worker/formats/model_config.h"

namespace ropelab::engine {

// x [rows, in] times weight [out, in] transposed, plus bias [out] unless undefined; all fp32 on the CPU, and
// so is the result [rows, out]. A row's bits depend on nothing but that row, the weight and the bias: not on
// the number of rows, their order, or the threads. In a sum no more than 37 + in / 512 additions follow on
// each other, where BLAS makes hundreds: its error is half or less.
at::Tensor RowProducts(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// x [rows, n] fp32 on the CPU, contiguous, replaced row by row.
void ActivateRows(at::Tensor& x, formats::Activation activation);
// The same: cap * tanh(x / cap), cap > 0. NaN stays NaN, an infinite x becomes the cap.
void CapRows(at::Tensor& x, double cap);

}  // namespace ropelab::engine
