#include "worker/session/backoff.h"

#include <algorithm>

namespace ropelab::session {

std::chrono::milliseconds Backoff::Next() {
  std::uniform_int_distribution<int64_t> spread(ceiling_.count() / 2, ceiling_.count());
  const std::chrono::milliseconds wait(spread(random_));
  ceiling_ = std::min(ceiling_ * 2, kLongest);
  return wait;
}

}  // namespace ropelab::session
