#include "server/store/task_counts.h"

#include <string>

#include "common/status_macros.h"

namespace ropelab::store {
namespace {

int64_t* CounterOf(TaskCounts& counts, const std::string& state) {
  if (state == "pending") return &counts.pending;
  if (state == "leased") return &counts.leased;
  if (state == "finished") return &counts.finished;
  if (state == "failed") return &counts.failed;
  if (state == "poisoned") return &counts.poisoned;
  return &counts.unwanted;
}

}  // namespace

absl::StatusOr<TaskCounts> CountTasks(Connection& db, int64_t experiment) {
  TaskCounts counts;
  ROPELAB_RETURN_IF_ERROR(db.Query("SELECT COALESCE(MAX(stage), 0) FROM stages WHERE experiment = ?",
                                   {experiment}, [&](const Row& row) {
                                     counts.stage = row.Integer(0);
                                     return absl::OkStatus();
                                   }));
  ROPELAB_RETURN_IF_ERROR(db.Query(
      "SELECT t.state, COUNT(*), SUM(t.state = 'finished' AND t.measured_for <> ?1), SUM(t.readings) "
      "FROM stage_tasks s JOIN tasks t ON t.id = s.task WHERE s.experiment = ?1 GROUP BY t.state",
      {experiment}, [&](const Row& row) {
        *CounterOf(counts, row.Text(0)) = row.Integer(1);
        counts.total += row.Integer(1);
        counts.reused += row.Integer(2);
        counts.readings += row.Integer(3);
        return absl::OkStatus();
      }));
  return counts;
}

}  // namespace ropelab::store
