// The MLP's activations on the CPU over one raw fp32 row. libtorch computes what its vectors leave over by
// other functions, so an element's last bit would depend on its place in the whole tensor; here it depends on
// its place in its row alone. Compiled for several instruction sets as row_kernels.h is.
#pragma once

#include <cstdint>

namespace ropelab::engine {

// In place: x / (1 + e^-x), off by at most 1e-6 of the exact value and 2e-36; NaN stays NaN.
void SiluRow(float* row, int64_t n);

// In place: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), Hugging Face's gelu_pytorch_tanh, within
// 3e-7 * max(1, |x|) of the exact value; NaN stays NaN.
void GeluTanhRow(float* row, int64_t n);

}  // namespace ropelab::engine
