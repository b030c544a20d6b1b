// The numbered SQL files of migrations/, compiled in, and how a database is brought up to them.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "server/store/connection.h"

namespace ropelab::store {

struct Migration {
  int version;  // from 1, without gaps
  const char* name;
  const char* sql;
};
const std::vector<Migration>& EmbeddedMigrations();

// Applies what is missing, each migration in a transaction together with its number (user_version), so that a
// kill leaves the database before or after it. FAILED_PRECONDITION: the database is of a newer version than
// this binary.
absl::Status Migrate(Connection& db, const std::vector<Migration>& migrations);

}  // namespace ropelab::store
