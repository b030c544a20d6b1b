// How far an experiment is, in numbers.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/store/connection.h"

namespace ropelab::store {

// Over the links of all stages planned so far: a task that stands at two places of the plan counts twice.
struct TaskCounts {
  int64_t stage = 0;  // the latest begun, from 1; 0: none
  int64_t total = 0;
  int64_t pending = 0, leased = 0, finished = 0, failed = 0, poisoned = 0, unwanted = 0;
  int64_t reused = 0;    // finished ones that were measured for an earlier experiment
  int64_t readings = 0;  // committed
};
absl::StatusOr<TaskCounts> CountTasks(Connection& db, int64_t experiment);

}  // namespace ropelab::store
