#include "worker/engine/rope.h"

#include <cmath>

namespace ropelab::engine {

namespace {

// Rows [first, end) of both tables, [n, D/2] fp32 on the CPU.
void FillRows(const std::vector<double>& inv_freq, double factor, int64_t first, int64_t end,
              at::Tensor& cosines, at::Tensor& sines) {
  const int64_t pairs = static_cast<int64_t>(inv_freq.size());
  float* c = cosines.data_ptr<float>();
  float* s = sines.data_ptr<float>();
  for (int64_t m = first; m < end; ++m) {
    for (int64_t p = 0; p < pairs; ++p) {
      const double angle = static_cast<double>(m) * inv_freq[p];
      c[m * pairs + p] = static_cast<float>(factor * std::cos(angle));
      s[m * pairs + p] = static_cast<float>(factor * std::sin(angle));
    }
  }
}

}  // namespace

RotaryTable::RotaryTable(const std::vector<double>& inv_freq, int64_t positions, at::Device device,
                         double factor) {
  cosine_ = at::empty({positions, static_cast<int64_t>(inv_freq.size())}, at::kFloat);
  sine_ = at::empty_like(cosine_);
  FillRows(inv_freq, factor, 0, positions, cosine_, sine_);
  cosine_ = cosine_.to(device);
  sine_ = sine_.to(device);
}

RotaryTable RotaryTable::OfPrompt(const formats::ModelConfig& config, int64_t tokens, at::Device device) {
  return {formats::InverseFrequencies(config, tokens), tokens, device, config.rope_scaling.attention_factor};
}

RotaryTable RotaryTable::OfDecoding(const formats::ModelConfig& config, int64_t capacity, at::Device device) {
  if (!formats::FrequenciesDependOnLength(config)) return OfPrompt(config, capacity, device);
  at::Tensor cosines = at::empty({capacity, config.head_dim / 2}, at::kFloat);
  at::Tensor sines = at::empty_like(cosines);
  for (int64_t p = 0; p < capacity; ++p) {
    FillRows(formats::InverseFrequencies(config, p + 1), config.rope_scaling.attention_factor, p, p + 1,
             cosines, sines);
  }
  return {cosines, sines, device};
}

at::Tensor RotaryTable::Rotate(const at::Tensor& x, int64_t first, int64_t positions) const {
  const int64_t pairs = x.size(2) / 2;
  const at::Tensor c = cosine_.narrow(0, first, positions).unsqueeze(1);
  const at::Tensor s = sine_.narrow(0, first, positions).unsqueeze(1);
  const at::Tensor low = x.narrow(2, 0, pairs), high = x.narrow(2, pairs, pairs);
  return at::cat({low * c - high * s, high * c + low * s}, 2);
}

}  // namespace ropelab::engine
