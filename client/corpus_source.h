// The files of a corpus on this machine, and how they are read for sending.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::client {

struct CorpusSource {
  std::string kind;                // "text", "jsonl"
  std::vector<std::string> files;  // in the order of documents
  int64_t bytes = 0;
};

// `path` is a file or a folder, whose *.txt files are then the documents, in name order. `kind` empty: told
// by the path. Errors name the path and the remedy: no such file, not readable, no *.txt in a folder, a kind
// that cannot be told.
absl::StatusOr<CorpusSource> FindCorpusSource(const std::string& path, const std::string& kind);

// Reads and checks all of it, and calls `send` with message after message, head excepted. Ends early, OK,
// when `send` says false. INVALID_ARGUMENT names file, line or byte, and remedy.
absl::Status ReadCorpusSource(const CorpusSource& source,
                              absl::FunctionRef<bool(const v1::AddCorpusRequest&)> send);

}  // namespace ropelab::client
