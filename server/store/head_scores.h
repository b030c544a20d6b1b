// Scores of heads that were registered, with their files as they were given. The store does not read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/connection.h"

namespace ropelab::store {

struct HeadScoreRow {
  std::string name, sha256, owner;
  int64_t registered_us = 0;
  std::string content;  // to register: the file
};

// True if the name has this content already: then nothing changes. Else adds it beside what the name has;
// registered_us is moved on where it would not come last.
absl::StatusOr<bool> RegisterHeadScores(Connection& db, const HeadScoreRow& row);
// By name; of one name the last registered first. Without their content.
absl::StatusOr<std::vector<HeadScoreRow>> ListHeadScores(Connection& db);
// NOT_FOUND: the name has no such content.
absl::StatusOr<std::string> HeadScoreContent(Connection& db, const std::string& name,
                                             const std::string& sha256);

}  // namespace ropelab::store
