// Time from outside, behind one small interface: a simulated clock replaces it in tests.
#pragma once

#include <chrono>
#include <cstdint>

namespace ropelab {

class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back; for durations and deadlines.
  virtual std::chrono::nanoseconds Monotonic() const = 0;
  // Microseconds since 1970, UTC; for stamps only.
  virtual int64_t WallMicroseconds() const = 0;
  static const Clock& Real();
};

}  // namespace ropelab
