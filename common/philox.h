// Counter-based random numbers: Philox4x64-10 exactly as numpy defines it, so that
//   numpy.random.Philox(key=[seed, purpose], counter=[0, 0, sample, 0]).random_raw(n)
// prints our stream. docs/random-numbers.md is the contract; nothing here depends on torch, the platform or a
// global state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace ropelab {

// What a stream is drawn for. The numbers are part of every key: never change or reuse one.
enum class Purpose : uint64_t {
  kUniformTokens = 1,
  kSampling = 2,
  kGeometry = 3,
  kCorpusOrder = 4,
  kGeneratedText = 5,
  kShallowTraining = 6,
  kShallowWatched = 7,
  kShallowJudged = 8,
  kCone = 9,
  kRandomHeads = 10,
  kNeedleDetection = 11,
  kNeedleTest = 12,
  kRandomDims = 13,
  kPermutation = 14,
  kBootstrap = 15,
};

// High 64 bits of raw * n: an integer in [0, n) for n > 0.
inline uint64_t HighProduct(uint64_t raw, uint64_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(raw) * n) >> 64);
}

// One stream. Not safe to share between threads; cheap to make.
class Philox {
 public:
  Philox(uint64_t seed, Purpose purpose, uint64_t sample);
  Philox(std::array<uint64_t, 2> key, std::array<uint64_t, 4> counter) : key_(key), counter_(counter) {}

  uint64_t Raw();
  // In [0, n); n > 0. Not exactly uniform: no value's probability is off by more than n / 2^64.
  uint64_t Integer(uint64_t n) { return HighProduct(Raw(), n); }
  // In [0, 1): the upper 53 bits.
  double Double() { return static_cast<double>(Raw() >> 11) * 0x1.0p-53; }
  // Two standard normals by Box and Muller from the next two doubles u, v: sqrt(-2 ln(1-u)) times cos and sin
  // of 2 pi v.
  std::pair<double, double> NormalPair();
  // Fills `values` with normals, a pair after the other; an odd count drops the last pair's second.
  void Normals(std::span<double> values);

  // Fisher and Yates: i from n-1 down to 1, j = Integer(i + 1), swap.
  template <typename T>
  void Shuffle(std::span<T> values) {
    for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[Integer(i + 1)]);
  }

 private:
  std::array<uint64_t, 2> key_;
  std::array<uint64_t, 4> counter_;
  std::array<uint64_t, 4> block_{};
  size_t used_ = 4;
};

}  // namespace ropelab
