// How long to wait before the next connection: doubles from 100 ms to 2 s, each wait drawn between half and
// all of it so that the workers of a pool do not come back in step.
#pragma once

#include <chrono>
#include <random>

namespace ropelab::session {

class Backoff {
 public:
  explicit Backoff(uint64_t seed) : random_(seed) {}
  static constexpr std::chrono::milliseconds kFirst{100};
  static constexpr std::chrono::milliseconds kLongest{2000};

  std::chrono::milliseconds Next();
  // After a connection that lasted.
  void Reset() { ceiling_ = kFirst; }
  // Another process took this worker's place: come back as late as possible.
  void Lengthen() { ceiling_ = kLongest; }

 private:
  std::chrono::milliseconds ceiling_ = kFirst;
  std::mt19937_64 random_;  // spreads waits; no result depends on it
};

}  // namespace ropelab::session
