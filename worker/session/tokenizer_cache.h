// The tokenizers that this process holds, each read from the directory of the model that a grant names and
// held to the hash that the task names.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ropelab/v1/worker_service.pb.h"
#include "worker/formats/tokenizer/tokenizer.h"

namespace ropelab::session {

// Measuring thread only.
class TokenizerCache {
 public:
  explicit TokenizerCache(std::vector<std::string> roots) : roots_(std::move(roots)) {}

  // FAILED_PRECONDITION names the tokenizer.json that is gone or is no longer what the task names;
  // NOT_FOUND: no such model; INVALID_ARGUMENT: the file is not understood.
  absl::StatusOr<std::shared_ptr<const formats::Tokenizer>> Get(const v1::Grant& grant);

 private:
  struct Held {
    std::string path, stamp, hash;
    std::shared_ptr<const formats::Tokenizer> tokenizer;
  };
  const std::vector<std::string> roots_;
  std::list<Held> held_;  // most recently used first
};

}  // namespace ropelab::session
