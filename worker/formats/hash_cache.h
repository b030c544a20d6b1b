// Weights hashes that were computed before, each beside the stamps of the shards that it was computed from.
// One file a directory, replaced in one step, so workers may share a cache folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "worker/formats/shards.h"

namespace ropelab::formats {

// A change within this time of the hashing's begin may leave no trace: file systems stamp a change with a
// clock that ticks, some every two seconds, and two changes within one tick carry the same time.
inline constexpr int64_t kSettlingNs = 2'000'000'000;

// Whether any later change of the files must show in their stamps. `wall_ns`: now, since 1970; to be asked
// before the first byte is read.
bool IsSettled(const FileStamps& stamps, int64_t wall_ns);

// Of this directory, whatever path leads to it.
std::string HashCachePath(const std::string& directory, const std::string& cache_dir);
// Nothing when there is no entry, when it is damaged, or when it was made from other files than `stamps`.
std::optional<std::string> ReadHashCache(const std::string& path, const FileStamps& stamps);
// A cache that cannot be written costs time, never the result: it is logged.
void WriteHashCache(const std::string& path, const FileStamps& stamps, const std::string& hash);

// WeightsHash (checkpoint.h) by this clock.
absl::StatusOr<std::string> WeightsHashBy(const Clock& clock, const std::string& directory,
                                          const std::string& cache_dir,
                                          absl::FunctionRef<bool(int64_t done, int64_t total)> keep_going);

}  // namespace ropelab::formats
