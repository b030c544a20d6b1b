// What decides the bits of a result on this worker. DESIGN truth 1.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ropelab::engine {

// Raised by hand whenever a change of the engine can move a bit of any reading.
inline constexpr char kEngineVersion[] = "2";

struct NumericsClass {
  std::string hash;                      // first 16 hex digits of SHA-256 over the ingredients, a line each
  std::vector<std::string> ingredients;  // "engine=2", "device=cpu", ..., "probe=<digest>"
};

// Threads are set before; the probe runs here (under 200 ms). An error: this BLAS computes wrong.
absl::StatusOr<NumericsClass> ComputeNumericsClass(const std::string& device, int threads);

}  // namespace ropelab::engine
