#include "worker/engine/rope.h"

#include <cmath>

namespace ropelab::engine {

RotaryTable::RotaryTable(const std::vector<double>& inv_freq, int64_t positions, at::Device device) {
  const int64_t pairs = static_cast<int64_t>(inv_freq.size());
  at::Tensor cosines = at::empty({positions, pairs}, at::kFloat);
  at::Tensor sines = at::empty({positions, pairs}, at::kFloat);
  float* c = cosines.data_ptr<float>();
  float* s = sines.data_ptr<float>();
  for (int64_t m = 0; m < positions; ++m) {
    for (int64_t p = 0; p < pairs; ++p) {
      const double angle = static_cast<double>(m) * inv_freq[p];
      c[m * pairs + p] = static_cast<float>(std::cos(angle));
      s[m * pairs + p] = static_cast<float>(std::sin(angle));
    }
  }
  cosine_ = cosines.to(device);
  sine_ = sines.to(device);
}

at::Tensor RotaryTable::Rotate(const at::Tensor& x, int64_t first, int64_t positions) const {
  const int64_t pairs = x.size(2) / 2;
  const at::Tensor c = cosine_.narrow(0, first, positions).unsqueeze(1);
  const at::Tensor s = sine_.narrow(0, first, positions).unsqueeze(1);
  const at::Tensor low = x.narrow(2, 0, pairs), high = x.narrow(2, pairs, pairs);
  return at::cat({low * c - high * s, high * c + low * s}, 2);
}

}  // namespace ropelab::engine
