#include "worker/engine/layer_ops.h"

#include "worker/engine/row_products.h"
#include "worker/model/int8_weights.h"

namespace ropelab::engine {
namespace {

// x / sqrt(mean(x^2) + eps) in fp32.
at::Tensor Normalized(const at::Tensor& x, double eps) {
  const at::Tensor wide = x.to(at::kFloat);
  return wide * at::rsqrt((wide * wide).mean(-1, /*keepdim=*/true) + eps);
}

// x [rows, n] fp32; on the CPU in place.
at::Tensor Activated(at::Tensor x, formats::Activation activation) {
  if (x.is_cpu()) {
    ActivateRows(x, activation);
    return x;
  }
  switch (activation) {
    case formats::Activation::kGelu:
      return at::gelu(x, "none");
    case formats::Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case formats::Activation::kSilu:
      break;
  }
  return at::silu(x);
}

at::Tensor Widened(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.defined() ? tensor.to(type) : tensor;
}

}  // namespace

at::ScalarType ProductType(at::ScalarType activations, at::Device device) {
  return activations == at::kHalf && device.is_cpu() ? at::kFloat : activations;
}

bool RowsAreIndependent(at::ScalarType activations, at::Device device) {
  return device.is_cpu() && ProductType(activations, device) == at::kFloat;
}

model::LayerWeights ForProducts(const model::LayerWeights& weights, at::ScalarType product_type) {
  model::LayerWeights ready = model::Widened(weights);
  for (at::Tensor* tensor : {&ready.query, &ready.key, &ready.value, &ready.query_bias, &ready.key_bias,
                             &ready.value_bias, &ready.output, &ready.output_bias, &ready.gate, &ready.up,
                             &ready.gate_bias, &ready.up_bias, &ready.down, &ready.down_bias}) {
    *tensor = Widened(*tensor, product_type);
  }
  return ready;
}

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  // Integers without their scales would be another model.
  TORCH_CHECK(weight.is_floating_point(), "a projection that is not ready for products");
  const at::ScalarType product_type = ProductType(x.scalar_type(), x.device());
  const at::Tensor operand = x.to(product_type);
  if (RowsAreIndependent(x.scalar_type(), x.device())) {
    return RowProducts(operand, weight.to(product_type), Widened(bias, product_type)).to(x.scalar_type());
  }
  const at::Tensor matrix = weight.to(product_type).t();
  const at::Tensor product =
      bias.defined() ? at::addmm(bias.to(product_type), operand, matrix) : at::mm(operand, matrix);
  return product.to(x.scalar_type());
}

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return Normalized(x, eps).to(x.scalar_type()) * weight.to(x.scalar_type());
}

at::Tensor WideRmsNorm(const at::Tensor& x, const at::Tensor& weight, double eps, double offset) {
  const at::Tensor factor = weight.to(x.scalar_type()).to(at::kFloat) + offset;
  return (Normalized(x, eps) * factor).to(x.scalar_type());
}

at::Tensor Mlp(const at::Tensor& x, const model::LayerWeights& layer, formats::Activation activation) {
  // In fp32 and rounded: what libtorch's activations do for bf16 anyway, and the CPU has none for fp16.
  const at::Tensor gate =
      Activated(Linear(x, layer.gate, layer.gate_bias).to(at::kFloat), activation).to(x.scalar_type());
  const at::Tensor up = Linear(x, layer.up, layer.up_bias);
  return Linear(gate * up, layer.down, layer.down_bias);
}

}  // namespace ropelab::engine
