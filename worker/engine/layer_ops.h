// The operations of which a decoder's row-wise steps are made: norms, products, MLP. All take [rows, ...] in
// the activations' dtype.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "worker/model/loaded_model.h"

namespace ropelab::engine {

// The dtype in which a product is taken. The CPU has no fp16 product (libtorch 1.13): there fp16 operands,
// which hold fp16 values, are widened, the product is taken in fp32, and its result is rounded to fp16 as a
// device would store it.
at::ScalarType ProductType(at::ScalarType activations, at::Device device);

// Whether a row's bits depend on no other row and not on their number: where products are taken in fp32 on
// the CPU. BLAS and devices add in other orders for other numbers of rows.
bool RowsAreIndependent(at::ScalarType activations, at::Device device);

// A layer's weights ready for products: themselves, or widened copies where ProductType differs or a
// projection is int8. Made once per layer and run.
model::LayerWeights ForProducts(const model::LayerWeights& weights, at::ScalarType product_type);

// x [rows, in] times weight [out, in] transposed, plus bias [out] unless undefined. Rounded to x's dtype.
// RowProducts where rows are independent, libtorch's product elsewhere.
at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// x / sqrt(mean(x^2) + eps) * weight over the last dimension: in fp32 up to the rounding to x's dtype, the
// weight after it, as Hugging Face does.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps);

// The same with (offset + weight) multiplied in fp32, before the one rounding: Hugging Face's gemma (offset
// 1) and olmo2 (0).
at::Tensor WideRmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps, double offset);

// down(activation(gate x) * (up x)).
at::Tensor Mlp(const at::Tensor& x, const model::LayerWeights& layer, formats::Activation activation);

// fp32 numbers rounded to what `type` holds, as fp32.
inline at::Tensor RoundedTo(at::ScalarType type, const at::Tensor& wide) {
  return wide.to(type).to(at::kFloat);
}

}  // namespace ropelab::engine
