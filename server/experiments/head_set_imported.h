// Scores of heads that `ropelab heads import` registered: the file, and how a spec names it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// Bytes of a file. Published ones, of a thousand heads with five hundred scores each, have 2 to 3 MiB.
inline constexpr int64_t kLargestHeadScores = int64_t{32} << 20;

// INVALID_ARGUMENT with the remedy: 1 to 200 bytes of UTF-8 without control characters, '/' and '@', no space
// at either end.
absl::Status CheckHeadScoresName(const std::string& name);

// Reads JSON {"layer-head": [scores...]}: layers and heads from 0 without leading zeros, at most 9999; of
// each head at least one finite number. A number alone counts as a list of one, and lists of lists are read
// one after the other. The mean of a head is taken in the file's order. INVALID_ARGUMENT names the place:
// what is no JSON (with line and column; "NaN", Python's own notation), a key that is no layer-head or comes
// twice, an empty list, a text, a file that is too large or names no head.
absl::StatusOr<std::vector<ImportedScores::Head>> ParseHeadScores(const std::string& content);

// Heads with a mean of at least the threshold.
int64_t HeadsAt(const ImportedScores& scores, double threshold);
// Indices of the heads, the best first: by mean, of a tie by layer and head.
std::vector<size_t> RankedHeads(const ImportedScores& scores);

// Finds "name", or "name@hash" with a prefix (at least 8 hex digits) of the SHA-256. The message of an error
// is a remedy: NOT_FOUND lists the known names, INVALID_ARGUMENT what a name stands for.
absl::StatusOr<ImportedScores> FindHeadScores(const std::vector<ImportedScores>& known,
                                              const std::string& typed);
// As a resolved spec names them: "name@sha256".
std::string HeadScoresLabel(const ImportedScores& scores);

// The names that the imported sets of a message have, each once: as typed, or labels of a resolved spec.
std::vector<std::string> ImportedNames(const google::protobuf::Message& message);

}  // namespace ropelab::experiments
