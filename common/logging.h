// Log lines go to stderr: "2026-01-31T12:00:00.123Z level message". Use spdlog::info(...) and friends after
// this.
#pragma once

#include <string>
#include <vector>

namespace ropelab {

// Once, in main(). Level from ROPELAB_LOG (debug, info, warning, error), default info.
void InitializeLogging();
// The lines logged since the last call, newest last, at most 50: what travels with heartbeats.
std::vector<std::string> TakeLogTail();

}  // namespace ropelab
