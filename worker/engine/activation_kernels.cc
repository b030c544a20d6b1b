#include "worker/engine/activation_kernels.h"

#include "worker/engine/vector_math.h"

namespace ropelab::engine {

ROPELAB_VECTOR_CLONES void SiluRow(float* row, int64_t n) {
  ROPELAB_INDEPENDENT_ROUNDS
  for (int64_t i = 0; i < n; ++i) {
    const float x = row[i];
    const float e = ExpOfNonPositive(-std::fabs(x));  // sigmoid(x) = 1 / (1 + e) or e / (1 + e)
    row[i] = x * ((x < 0 ? e : 1.0f) / (1.0f + e));
  }
}

ROPELAB_VECTOR_CLONES void GeluTanhRow(float* row, int64_t n) {
  constexpr float kSlope = 0.79788456080286536f;  // sqrt(2 / pi)
  ROPELAB_INDEPENDENT_ROUNDS
  for (int64_t i = 0; i < n; ++i) {
    const float x = row[i];
    row[i] = 0.5f * x * (1.0f + Tanh(kSlope * (x + 0.044715f * x * x * x)));
  }
}

}  // namespace ropelab::engine
