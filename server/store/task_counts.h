// How far an experiment is, in numbers.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/store/connection.h"

namespace ropelab::store {

struct TaskCounts {
  int64_t stage = 0;  // the latest begun, from 1; 0: none
  int64_t total = 0;  // linked tasks of all stages planned so far
  int64_t finished = 0;
  int64_t reused = 0;    // finished ones that were measured for an earlier experiment
  int64_t readings = 0;  // committed, over all linked tasks
};
absl::StatusOr<TaskCounts> CountTasks(Connection& db, int64_t experiment);

}  // namespace ropelab::store
