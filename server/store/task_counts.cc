#include "server/store/task_counts.h"

#include "common/status_macros.h"

namespace ropelab::store {

absl::StatusOr<TaskCounts> CountTasks(Connection& db, int64_t experiment) {
  TaskCounts counts;
  ROPELAB_RETURN_IF_ERROR(db.Query(
      "SELECT (SELECT coalesce(max(stage), 0) FROM stages WHERE experiment = ?1), count(*), "
      "coalesce(sum(t.state = 'finished'), 0), "
      "coalesce(sum(t.state = 'finished' AND t.measured_for <> ?1), 0), coalesce(sum(t.readings), 0) "
      "FROM stage_tasks AS l JOIN tasks AS t ON t.id = l.task WHERE l.experiment = ?1",
      {experiment}, [&](const Row& row) {
        counts.stage = row.Integer(0);
        counts.total = row.Integer(1);
        counts.finished = row.Integer(2);
        counts.reused = row.Integer(3);
        counts.readings = row.Integer(4);
        return absl::OkStatus();
      }));
  return counts;
}

}  // namespace ropelab::store
