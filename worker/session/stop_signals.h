// SIGTERM and SIGINT as calls on a thread: the first asks for an orderly end, the second ends the process at
// once.
#pragma once

#include <functional>

namespace ropelab::session {

// In main() before any thread is started: threads inherit the mask.
void BlockStopSignals();
// From now on the first signal calls `drain` (on a thread of its own) and the second exits with 128 + its
// number.
void OnStopSignals(std::function<void()> drain);

}  // namespace ropelab::session
