// How a spec names a corpus.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// Finds "name", or "name@hash" with a prefix (at least 8 hex digits) of the SHA-256, among all that are
// registered. The message of an error is a remedy: NOT_FOUND lists the known names, INVALID_ARGUMENT lists
// what a name stands for, FAILED_PRECONDITION says why the corpus cannot be read now.
absl::StatusOr<CorpusFacts> FindCorpus(const std::vector<CorpusFacts>& known, const std::string& typed);

// As a resolved spec names it: "name@sha256".
std::string CorpusLabel(const CorpusFacts& corpus);

// The corpus of a resolved name. FAILED_PRECONDITION where it is not registered any more.
absl::StatusOr<CorpusFacts> FindResolvedCorpus(const std::vector<CorpusFacts>& known,
                                               const std::string& label);

}  // namespace ropelab::experiments
