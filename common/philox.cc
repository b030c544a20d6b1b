#include "common/philox.h"

#include <cmath>
#include <numbers>

namespace ropelab {
namespace {

// Multipliers and Weyl constants of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
constexpr uint64_t kMultiplier0 = 0xD2E7470EE14C6C93u;
constexpr uint64_t kMultiplier1 = 0xCA5A826395121157u;
constexpr uint64_t kWeyl0 = 0x9E3779B97F4A7C15u;
constexpr uint64_t kWeyl1 = 0xBB67AE8584CAA73Bu;
constexpr int kRounds = 10;

std::array<uint64_t, 4> Encrypt(std::array<uint64_t, 4> c, std::array<uint64_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t high0 = HighProduct(c[0], kMultiplier0), low0 = c[0] * kMultiplier0;
    const uint64_t high1 = HighProduct(c[2], kMultiplier1), low1 = c[2] * kMultiplier1;
    c = {high1 ^ c[1] ^ key[0], low1, high0 ^ c[3] ^ key[1], low0};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return c;
}

}  // namespace

Philox::Philox(uint64_t seed, Purpose purpose, uint64_t sample)
    : Philox({seed, static_cast<uint64_t>(purpose)}, {0, 0, sample, 0}) {}

uint64_t Philox::Raw() {
  if (used_ == block_.size()) {
    // numpy counts up before it generates, so the first block belongs to counter + 1.
    for (uint64_t& word : counter_) {
      if (++word != 0) break;
    }
    block_ = Encrypt(counter_, key_);
    used_ = 0;
  }
  return block_[used_++];
}

std::pair<double, double> Philox::NormalPair() {
  const double u = Double();
  const double v = Double();
  const double radius = std::sqrt(-2.0 * std::log(1.0 - u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

void Philox::Normals(std::span<double> values) {
  for (size_t i = 0; i < values.size(); i += 2) {
    const auto [first, second] = NormalPair();
    values[i] = first;
    if (i + 1 < values.size()) values[i + 1] = second;
  }
}

}  // namespace ropelab
