#include "common/clock.h"

namespace ropelab {
namespace {

class RealClock : public Clock {
 public:
  std::chrono::nanoseconds Monotonic() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
  int64_t WallMicroseconds() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock clock;
  return clock;
}

}  // namespace ropelab
