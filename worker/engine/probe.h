// A fixed little computation whose bits tell what no version tells.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "absl/status/status.h"

namespace ropelab::engine {

// First 16 hex digits of SHA-256 over the bytes of fixed computations on `device`: fp32 and bf16 products at
// the engine's shapes (inside one thread and across threads), softmax, exp, rsqrt, cos and sin.
std::string ProbeDigest(at::Device device);

// Small products, fp32 and bf16, against a loop in double. FAILED_PRECONDITION naming the library: it
// computes wrong.
absl::Status CheckProducts(at::Device device);

}  // namespace ropelab::engine
